//! The paste box, and the reference at the broker's own address.

use crate::world::{Answer, HOSTILE, World, request};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use ottla_microscope::input::hex;
use ottla_wire::ApiKey;
use ottla_wire::smallest_frame;
use ottla_wire::tables::Direction;

async fn post(world: &World, fields: &[(&str, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (name, value) in fields {
        let file = if *name == "file" { "; filename=\"x\"" } else { "" };
        let head = format!("--line\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--line--\r\n");
    let request =
        request(Method::POST, "/decode").header(header::CONTENT_TYPE, "multipart/form-data; boundary=line");
    world.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn a_request_and_its_response_are_taken_apart() {
    let world = World::new().await;
    let both = [Direction::Request, Direction::Response]
        .map(|direction| hex(&smallest_frame(ApiKey::TXN_OFFSET_COMMIT, direction, 5).unwrap()));
    let answer = post(&world, &[("text", both.join("\n").as_bytes())]).await;
    assert_eq!(answer.status, StatusCode::OK);
    for text in ["TxnOffsetCommitRequest", "TxnOffsetCommitResponse", "81 bytes, read as hex", "id=\"f1b24\""]
    {
        assert!(answer.text.contains(text), "{text}");
    }
    assert!(!answer.text.contains("class=\"faults\""));
}

#[tokio::test]
async fn responses_need_their_api_and_version() {
    let world = World::new().await;
    let response = hex(&smallest_frame(ApiKey::METADATA, Direction::Response, 12).unwrap());
    let text = ("text", response.as_bytes());
    let answer = post(&world, &[text, ("responses", b"1")]).await;
    assert!(answer.text.contains("name the API and the version"), "{}", answer.text);
    let answer = post(&world, &[text, ("responses", b"1"), ("api", b"metadata"), ("version", b"v12")]).await;
    assert!(answer.text.contains("MetadataResponse"), "{}", answer.text);
    assert!(!answer.text.contains("class=\"faults\""));
}

#[tokio::test]
async fn faults_and_hostile_bytes_are_shown_as_text() {
    let world = World::new().await;
    let mut frame = smallest_frame(ApiKey::ADD_OFFSETS_TO_TXN, Direction::Request, 4).unwrap().to_vec();
    frame.truncate(20);
    let answer = post(&world, &[("file", &frame)]).await;
    assert!(answer.text.contains("expected 8 bytes, found 4"), "{}", answer.text);
    let answer =
        post(&world, &[("text", HOSTILE.as_bytes()), ("api", HOSTILE.as_bytes()), ("responses", b"1")]).await;
    assert!(!answer.text.contains("<script>alert"), "{}", answer.text);
    let answer = post(&world, &[("text", b"")]).await;
    assert!(answer.text.contains("nothing to decode"));
}

#[tokio::test]
async fn a_capture_file_is_a_conversation() {
    let world = World::new().await;
    let capture = include_bytes!("../../../microscope/tests/capture/kcat.pcap");
    let answer = post(&world, &[("file", capture)]).await;
    for text in ["ApiVersionsRequest", "MetadataResponse", "  request  ", "  after "] {
        assert!(answer.text.contains(text), "{text}");
    }
    assert!(!answer.text.contains("class=\"faults\""));
}

#[tokio::test]
async fn too_much_is_refused() {
    let world = World::new().await;
    let answer = post(&world, &[("file", &vec![0; (8 << 20) + 1])]).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn the_reference_is_served() {
    let world = World::new().await;
    for path in
        ["/reference/index.html", "/reference/apis/Fetch/index.html", "/reference/errors.html", "/decode"]
    {
        let page = world.page(path).await;
        assert!(page.contains("href=\"/transactions\""), "{path} leads back to the broker");
    }
    assert_eq!(world.get("/reference/").await.status, StatusCode::PERMANENT_REDIRECT);
    assert_eq!(world.get("/reference/apis/Fetch/v99.html").await.status, StatusCode::NOT_FOUND);
    assert_eq!(world.get("/reference/site.js").await.status, StatusCode::OK);
}
