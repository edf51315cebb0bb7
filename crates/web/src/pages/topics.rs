//! The list of topics, and the page of one topic with its partitions and their producers.

use crate::error::HttpError;
use crate::format::{moment, size};
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::topics::{self, PartitionRow, ProducerRow, TopicRow};
use askama::Template;
use serde::Serialize;
use std::collections::BTreeMap;

/// The list of topics.
#[derive(Template, Serialize)]
#[template(path = "topics.html")]
pub(crate) struct TopicsPage {
    #[serde(skip)]
    layout: Layout,
    #[serde(skip)]
    filter: String,
    topics: Vec<TopicRow>,
    /// Topics beyond the rows that are shown.
    left_out: usize,
}

pub(crate) async fn topics(request: PageRequest) -> Result<TopicsPage, HttpError> {
    let filter = request.query_param("q").unwrap_or_default().to_owned();
    let rows = topics::list(&request.app.broker, filter.clone()).await?;
    let (topics, left_out) = super::truncate(rows);
    Ok(TopicsPage { layout: request.layout("Topics", "Topics"), filter, topics, left_out })
}

/// One topic.
#[derive(Template, Serialize)]
#[template(path = "topic.html")]
pub(crate) struct TopicPage {
    #[serde(skip)]
    layout: Layout,
    name: String,
    id: String,
    /// The settings of this topic.
    configs: BTreeMap<String, String>,
    partitions: Vec<PartitionRow>,
    partitions_left_out: usize,
    producers: Vec<ProducerRow>,
    producers_left_out: usize,
}

pub(crate) async fn topic(request: PageRequest) -> Result<TopicPage, HttpError> {
    let name = request.path_param("topic").to_owned();
    let topic = topics::find(&request.app.broker, name.clone()).await?;
    let topic = topic.ok_or_else(|| HttpError::not_found(format!("there is no topic named {name:?}")))?;
    let (partitions, partitions_left_out) = super::truncate(topic.partitions);
    let (producers, producers_left_out) = super::truncate(topic.producers);
    Ok(TopicPage {
        layout: request.layout(format!("Topic {name}"), "Topics"),
        name,
        id: topic.id,
        configs: topic.configs,
        partitions,
        partitions_left_out,
        producers,
        producers_left_out,
    })
}
