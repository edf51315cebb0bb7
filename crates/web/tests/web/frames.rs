//! Live frames: recorded on demand, filtered, explained, with the broker's verdict.

use crate::aborts::{fields, post};
use crate::world::{HOSTILE, World, record};
use axum::http::StatusCode;
use serde_json::{Value, json};

/// Sends the form of the page of frames with more fields.
async fn say(world: &World, more: &[(&str, &str)]) -> StatusCode {
    let token = fields(&world.page("/frames").await).swap_remove(0);
    assert_eq!(token.0, "token");
    let mut form = vec![token];
    form.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    post(world, "/frames", &form, &[]).await.status
}

fn apis(json: &Value) -> Vec<&str> {
    json["exchanges"].as_array().unwrap().iter().map(|row| row["api"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn exchanges_are_recorded_while_somebody_asks_for_it() {
    let world = World::new().await;
    world.create("letters", 1).await;
    assert_eq!(world.json("/frames").await["exchanges"], json!([]), "nothing is recorded unless asked for");
    assert_eq!(say(&world, &[("do", "start"), ("ring", "5")]).await, StatusCode::SEE_OTHER);
    let mut producer = world.producer(None).await;
    producer.send("letters", Some(0), vec![record("key", HOSTILE)]).await.unwrap();
    let json = world.json("/frames?api=Produce&topic=letters").await;
    assert_eq!((&json["on"], &json["ring"], apis(&json)), (&json!(true), &json!(5), vec!["Produce"]));
    assert_eq!(apis(&world.json("/frames?topic=other").await), [""; 0]);
    assert!(world.page("/frames").await.contains("Produce v"));
    let path = format!("/frame?seq={}", json["exchanges"][0]["seq"]);
    let one = world.json(&path).await;
    assert_eq!((&one["topics"], &one["request"]["faults"]), (&json!(["letters"]), &json!([])));
    assert!(one["request"]["tree"].as_str().unwrap().contains("TransactionalId"), "{one}");
    assert!(one["stages"].as_array().unwrap().len() >= 4);
    assert!(world.page(&path).await.contains("<pre class=\"tree\""));
    assert_eq!(say(&world, &[("do", "stop")]).await, StatusCode::SEE_OTHER);
    producer.send("letters", Some(0), vec![record("key", "unseen")]).await.unwrap();
    assert_eq!(apis(&world.json("/frames?api=Produce").await).len(), 1);
    assert_eq!(say(&world, &[("do", "clear")]).await, StatusCode::SEE_OTHER);
    assert_eq!(world.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn only_what_a_filter_passes_is_recorded() {
    let world = World::new().await;
    let start = [("do", "start"), ("api", "InitProducerId"), ("transactional_id", HOSTILE)];
    assert_eq!(say(&world, &start).await, StatusCode::SEE_OTHER);
    world.create("letters", 1).await;
    world.producer(Some("another")).await;
    world.producer(Some(HOSTILE)).await;
    let json = world.json("/frames").await;
    assert_eq!(apis(&json), ["InitProducerId"]);
    assert_eq!(json["recorded"]["transactional_id"], json!(HOSTILE));
    world.page("/frames").await;
    world.page(&format!("/frame?seq={}", json["exchanges"][0]["seq"])).await;
}

#[tokio::test]
async fn nonsense_and_forms_from_elsewhere_are_refused() {
    let world = World::new().await;
    for path in ["/frames?api=Nothing", "/frames?connection=x", "/frame", "/frame?seq=x"] {
        assert_eq!(world.get(path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(world.get("/frame?seq=7").await.status, StatusCode::NOT_FOUND);
    assert_eq!(say(&world, &[("do", "explode")]).await, StatusCode::BAD_REQUEST);
    assert_eq!(say(&world, &[("do", "start"), ("ring", "many")]).await, StatusCode::BAD_REQUEST);
    let start = [("do".to_owned(), "start".to_owned())];
    assert_eq!(post(&world, "/frames", &start, &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.json("/frames").await["on"], json!(false));
}
