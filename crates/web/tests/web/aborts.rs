//! Aborts: from a confirmation, by a form of our own only, of exactly what was meant.

use crate::world::{Answer, HOSTILE, HOSTILE_IN_QUERY, World, open_transaction, record, request};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};

/// The fields of the form on a confirmation page.
pub(crate) fn fields(page: &str) -> Vec<(String, String)> {
    let form = page.split("<form method=\"post\"").nth(1).unwrap();
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = inputs.map(|input| {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        let value = rest.split_once('"').unwrap().0;
        let plain = [("&#60;", "<"), ("&#62;", ">"), ("&#39;", "'"), ("&#34;", "\""), ("&#38;", "&")];
        let value = plain.iter().fold(value.to_owned(), |value, (from, to)| value.replace(from, to));
        (name.to_owned(), value)
    });
    fields.collect()
}

fn encoded(fields: &[(String, String)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

pub(crate) async fn post(
    world: &World,
    path: &str,
    fields: &[(String, String)],
    headers: &[(&str, &str)],
) -> Answer {
    let mut request =
        request(Method::POST, path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request.body(Body::from(encoded(fields))).unwrap()).await
}

async fn form(world: &World) -> Vec<(String, String)> {
    fields(&world.page(&format!("/transaction/abort?id={HOSTILE_IN_QUERY}")).await)
}

async fn state(world: &World) -> Value {
    world.json(&format!("/transaction?id={HOSTILE_IN_QUERY}")).await["state"].clone()
}

#[tokio::test]
async fn t_140_t_141_a_confirmed_abort_ends_the_transaction() {
    let world = World::new().await;
    let mut producer = open_transaction(&world).await;
    let form = form(&world).await;
    assert!(form.contains(&("id".to_owned(), HOSTILE.to_owned())), "{form:?}");
    let browser = [("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:9080")];
    let answer = post(&world, "/transaction/abort", &form, &browser).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    let place = answer.headers[header::LOCATION].to_str().unwrap();
    assert!(world.page(place).await.contains("CompleteAbort"));
    assert_eq!(state(&world).await, json!("CompleteAbort"));
    let topic = world.json("/topics/letters").await;
    assert_eq!(topic["partitions"][0]["last_stable_offset"], json!(2));
    assert_eq!(world.json("/groups").await["groups"][0]["partitions"], json!(0), "what was staged is gone");
    assert!(producer.commit().await.is_err(), "its producer is fenced");
}

#[tokio::test]
async fn only_our_own_pages_can_abort() {
    let world = World::new().await;
    let _producer = open_transaction(&world).await;
    let form = form(&world).await;
    let foreign: [&[(&str, &str)]; 5] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:9081")],
    ];
    for headers in foreign {
        let answer = post(&world, "/transaction/abort", &form, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let without: Vec<_> = form.iter().filter(|(name, _)| name != "token").cloned().collect();
    let mut wrong = form.clone();
    wrong[0].1 = "0".repeat(32);
    for bad in [without, wrong] {
        assert_eq!(post(&world, "/transaction/abort", &bad, &[]).await.status, StatusCode::FORBIDDEN);
    }
    let elsewhere = axum::http::Request::post("/transaction/abort")
        .header(header::HOST, "evil.example")
        .body(Body::from(encoded(&form)))
        .unwrap();
    assert_eq!(world.send(elsewhere).await.status, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(state(&world).await, json!("Ongoing"), "nothing was done");
}

#[tokio::test]
async fn a_transaction_that_is_over_is_not_aborted_again_nor_its_successor() {
    let world = World::new().await;
    let mut producer = open_transaction(&world).await;
    let form = form(&world).await;
    producer.commit().await.unwrap();
    let answer = post(&world, "/transaction/abort", &form, &[]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert!(answer.text.contains("nothing was done"), "{}", answer.text);
    producer.begin().await.unwrap();
    producer.send("letters", Some(0), vec![record("k", "the next one")]).await.unwrap();
    assert_eq!(post(&world, "/transaction/abort", &form, &[]).await.status, StatusCode::CONFLICT);
    producer.commit().await.unwrap();
    assert_eq!(state(&world).await, json!("CompleteCommit"));
    let page = world.page(&format!("/transaction/abort?id={HOSTILE_IN_QUERY}")).await;
    assert!(page.contains("No transaction of this id is open"), "{page}");
}

#[tokio::test]
async fn forms_that_lack_something_are_refused() {
    let world = World::new().await;
    let _producer = open_transaction(&world).await;
    let form = form(&world).await;
    for lost in ["id", "producer_id", "epoch", "started_ms"] {
        let rest: Vec<_> = form.iter().filter(|(name, _)| name != lost).cloned().collect();
        assert_eq!(
            post(&world, "/transaction/abort", &rest, &[]).await.status,
            StatusCode::BAD_REQUEST,
            "{lost}"
        );
    }
    assert_eq!(state(&world).await, json!("Ongoing"));
}
