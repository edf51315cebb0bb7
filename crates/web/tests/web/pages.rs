//! Each page, and the JSON behind it.

use crate::world::{HOSTILE, HOSTILE_IN_QUERY, World, open_transaction, record};
use axum::http::StatusCode;
use bytes::Bytes;
use ottla_client::{GroupConsumer, GroupOptions};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn the_overview_counts_what_there_is() {
    let world = World::new().await;
    let _producer = open_transaction(&world).await;
    let page = world.page("/").await;
    assert!(page.contains("Ready.") && page.contains("ottla-test-cluster-id0"), "{page}");
    let json = world.json("/").await;
    assert_eq!(json["ready"], json!(true));
    assert_eq!(json["state"]["topics"], json!(1));
    assert_eq!(json["state"]["open_transactions"], json!(1));
    assert_eq!(json["state"]["held_partitions"], json!(1));
}

#[tokio::test]
async fn topics_are_listed_and_found() {
    let world = World::new().await;
    world.create("letters", 2).await;
    world.create("postcards", 1).await;
    let names = |json: Value| -> Vec<String> {
        let topics = json["topics"].as_array().unwrap();
        topics.iter().map(|topic| topic["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(world.json("/topics").await), ["letters", "postcards"]);
    assert_eq!(names(world.json("/topics?q=card").await), ["postcards"]);
    assert!(world.page("/topics").await.contains("href=\"/topics/letters\""));
    let page = world.page(&format!("/topics?q={HOSTILE_IN_QUERY}")).await;
    assert!(page.contains("No topic matches the filter"), "{page}");
}

#[tokio::test]
async fn t_200_a_topic_says_who_holds_its_partitions_back() {
    let world = World::new().await;
    let mut producer = open_transaction(&world).await;
    let json = world.json("/topics/letters").await;
    let partition = &json["partitions"][0];
    let bounds = ["start", "last_stable_offset", "high_watermark", "end"].map(|key| partition[key].as_i64());
    assert_eq!(bounds, [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(partition["held"]["transactional_id"], json!(HOSTILE));
    assert_eq!(json["partitions"][1]["held"], Value::Null);
    assert_eq!(json["producers"][0]["producer_id"], json!(producer.identity().0.0));
    let page = world.page("/topics/letters").await;
    assert!(page.contains(&format!("/transaction?id={HOSTILE_IN_QUERY}")), "{page}");
    producer.commit().await.unwrap();
    let json = world.json("/topics/letters").await;
    assert_eq!((&json["partitions"][0]["held"], &json["partitions"][0]["end"]), (&Value::Null, &json!(2)));
    assert_eq!(world.get("/topics/nothing").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn records_are_opened_and_aborted_ones_are_marked() {
    let world = World::new().await;
    world.create("letters", 1).await;
    let mut plain = world.producer(None).await;
    let mut first = record("k", HOSTILE);
    first.headers =
        vec![(HOSTILE.to_owned(), Some(Bytes::from_static(&[0xff, 0]))), ("none".to_owned(), None)];
    let tombstone = ottla_client::Record { key: Some("k".into()), ..Default::default() };
    plain.send("letters", Some(0), vec![first, tombstone]).await.unwrap();
    let mut producer = world.producer(Some("t")).await;
    for commit in [false, true] {
        producer.begin().await.unwrap();
        producer.send("letters", Some(0), vec![record("k", "in a transaction")]).await.unwrap();
        if commit { producer.commit().await.unwrap() } else { producer.abort().await.unwrap() }
    }
    producer.begin().await.unwrap();
    producer.send("letters", Some(0), vec![record("k", "open")]).await.unwrap();
    let json = world.json("/topics/letters/0?offset=0").await;
    let rows = json["records"].as_array().unwrap();
    let fates: Vec<_> = rows.iter().map(|row| row["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["plain", "plain", "aborted", "plain", "committed", "plain", "open"]);
    let controls: Vec<_> = rows.iter().filter_map(|row| row["control"].as_str()).collect();
    assert_eq!(controls, ["ABORT", "COMMIT"]);
    assert_eq!(rows[0]["value"]["content"], json!(HOSTILE));
    assert_eq!(rows[0]["headers"][0]["value"]["content"], json!("ff00"));
    assert_eq!((&rows[1]["value"], &json["next_offset"]), (&Value::Null, &json!(7)));
    let page = world.page("/topics/letters/0?offset=0").await;
    assert!(page.contains("class=\"aborted\"") && page.contains("ABORT</span> marker"), "{page}");
}

#[tokio::test]
async fn records_are_paged_and_offsets_out_of_range_are_put_in_range() {
    let world = World::new().await;
    world.create("letters", 1).await;
    let mut plain = world.producer(None).await;
    let records = (0..10).map(|n| record("k", &"x".repeat(n + 1))).collect();
    plain.send("letters", Some(0), records).await.unwrap();
    let offsets = |json: &Value| -> Vec<i64> {
        json["records"].as_array().unwrap().iter().map(|row| row["offset"].as_i64().unwrap()).collect()
    };
    let json = world.json("/topics/letters/0?offset=3&count=2&bytes=2").await;
    assert_eq!((offsets(&json), &json["next_offset"]), (vec![3, 4], &json!(5)));
    assert_eq!(
        json["records"][0]["value"],
        json!({"content": "xx", "form": "text", "bytes": 4, "cut": true})
    );
    assert_eq!(offsets(&world.json("/topics/letters/0?count=3").await), [7, 8, 9], "the last ones");
    assert_eq!(offsets(&world.json("/topics/letters/0?offset=-5&count=1").await), [0]);
    assert_eq!(offsets(&world.json("/topics/letters/0?offset=99").await), [0_i64; 0]);
    for bad in ["/topics/letters/1", "/topics/letters/x", "/topics/nothing/0"] {
        assert_eq!(world.get(bad).await.status, StatusCode::NOT_FOUND, "{bad}");
    }
    assert_eq!(world.get("/topics/letters/0?offset=x").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn groups_show_members_assignment_and_lag() {
    let world = World::new().await;
    world.create("letters", 1).await;
    let letters = vec![record("a", "1"), record("b", "2"), record("c", "3")];
    world.producer(None).await.send("letters", Some(0), letters).await.unwrap();
    let mut member = GroupConsumer::new(&world.client, GroupOptions::new(HOSTILE, &["letters"]));
    while member.poll(Duration::from_millis(100)).await.unwrap().is_empty() {}
    let one = ottla_client::GroupOffset { topic: "letters".to_owned(), partition: 0, offset: 1 };
    assert!(member.commit_at(&[one]).await.unwrap());
    let json = world.json("/groups").await;
    let row = &json["groups"][0];
    assert_eq!((&row["id"], &row["state"], &row["lag"]), (&json!(HOSTILE), &json!("Stable"), &json!(2)));
    let path = format!("/group?id={HOSTILE_IN_QUERY}");
    let json = world.json(&path).await;
    assert_eq!(json["members"][0]["assignment"], json!([{"topic": "letters", "partitions": [0]}]));
    assert_eq!((&json["offsets"][0]["offset"], &json["offsets"][0]["lag"]), (&json!(1), &json!(2)));
    assert!(world.page("/groups").await.contains(&path));
    assert!(world.page(&path).await.contains("letters</a>: 0"));
    assert_eq!(world.get("/group?id=unknown").await.status, StatusCode::NOT_FOUND);
    assert_eq!(world.get("/group").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn transactions_show_what_they_hold_and_stage() {
    let world = World::new().await;
    let producer = open_transaction(&world).await;
    let json = world.json("/transactions").await;
    let row = &json["transactions"][0];
    assert_eq!((&row["id"], &row["state"]), (&json!(HOSTILE), &json!("Ongoing")));
    let held = &json["held"][0];
    assert_eq!((&held["topic"], &held["partition"]), (&json!("letters"), &json!(0)));
    assert_eq!((&held["held"]["offsets"], &held["held"]["hanging"]), (&json!(1), &json!(false)));
    let path = format!("/transaction?id={HOSTILE_IN_QUERY}");
    let json = world.json(&path).await;
    assert_eq!(json["producer_id"], json!(producer.identity().0.0));
    assert_eq!(json["partitions"][0]["first_offset"], json!(0));
    assert_eq!((&json["staged"][0]["group"], &json["staged"][0]["partition"]), (&json!(HOSTILE), &json!(1)));
    assert!(world.page("/transactions").await.contains(&path));
    let page = world.page(&path).await;
    assert!(page.contains("this transaction, from offset 0: 1 offsets wait"), "{page}");
    assert!(page.contains("/transaction/abort?id="), "{page}");
    assert_eq!(world.get("/transaction?id=unknown").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn pages_need_nothing_from_elsewhere() {
    let world = World::new().await;
    let _producer = open_transaction(&world).await;
    let transaction = format!("/transaction?id={HOSTILE_IN_QUERY}");
    for path in [
        "/",
        "/topics",
        "/topics/letters",
        "/topics/letters/0",
        "/groups",
        "/transactions",
        "/frames",
        &transaction,
    ] {
        let page = world.page(path).await;
        assert!(!page.contains("//") || !page.contains("src=\"http"), "{path}");
        assert!(page.contains("<main") && page.contains("<nav"), "{path}");
        let json = page.split("<a href=\"/api/v1").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let json = json.replace("&#38;", "&");
        assert_eq!(world.get(&format!("/api/v1{json}")).await.status, StatusCode::OK, "{path}: {json}");
    }
    for (path, kind) in [("/style.css", "text/css"), ("/refresh.js", "text/javascript")] {
        let answer = world.get(path).await;
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind));
    }
}
