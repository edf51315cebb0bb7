//! `/metrics`: the broker's figures in Prometheus' text format.
//!
//! Figures of Ottla itself are named `ottla_…`. Offsets and lag have the names of the usual Kafka exporter (`kafka_…`),
//! so that existing dashboards show this broker too. The number of series is bounded by
//! [`crate::shard::figures::MAX_SERIES`].

mod broker;
mod topics_and_groups;

use crate::App;
use crate::respond::with_type;
use crate::shard::figures::{ShardFigures, figures};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The longest wait for the shard's figures; after it the other figures are sent alone.
const SHARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The figures of this moment.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let shard = timeout(SHARD_TIMEOUT, figures(&app.broker)).await.ok().and_then(Result::ok);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { app, shard }));
    let mut text = String::with_capacity(16 << 10);
    match prometheus_text::encode(&mut text, &registry) {
        Ok(()) => with_type(prometheus_text::CONTENT_TYPE, text),
        Err(fmt::Error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the figures cannot be written, which is a bug in the broker\n",
        )
            .into_response(),
    }
}

/// The figures of one scrape.
#[derive(Debug)]
struct Scrape {
    app: Arc<App>,
    /// None if the shard does not respond in time.
    shard: Option<ShardFigures>,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = MetricsEncoder(encoder);
        broker::process(&self.app, &mut encoder)?;
        broker::requests(self.app.broker.metrics(), &mut encoder)?;
        broker::connections(&self.app, &mut encoder)?;
        broker::log(&self.app, &mut encoder)?;
        match &self.shard {
            Some(shard) => topics_and_groups::write(shard, self.app.broker.metrics(), &mut encoder),
            None => Ok(()),
        }
    }
}

/// The labels of a series: name and value.
type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// Writes families of figures.
struct MetricsEncoder<'a>(DescriptorEncoder<'a>);

impl MetricsEncoder<'_> {
    /// A family of counters; `_total` is added to the name.
    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A family of gauges.
    fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// One counter without labels.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [(Labels::new(), value)])
    }

    /// One gauge without labels.
    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.gauges(name, help, [(Labels::new(), value)])
    }

    /// A family of histograms. Their values are divided by `per` to get the unit in the name.
    fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        per: f64,
        rows: impl IntoIterator<Item = (Labels<'l>, ottla_broker::HistogramView)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, view) in rows {
            let buckets: Vec<(f64, u64)> =
                view.buckets.iter().map(|(bound, count)| (*bound as f64 / per, *count)).collect();
            let sum = view.sum as f64 / per;
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                sum,
                view.count(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}
