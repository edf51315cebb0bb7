//! Who is answered: hosts, methods, what browsers may do with an answer.

use crate::world::{World, request};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};

async fn as_host(world: &World, host: &str, path: &str) -> StatusCode {
    let request = Request::builder().uri(path).header(header::HOST, host);
    world.send(request.body(Body::empty()).unwrap()).await.status
}

#[tokio::test]
async fn names_of_others_are_not_answered_to() {
    let world = World::new().await;
    for host in ["127.0.0.1:9080", "[::1]:9080", "localhost", "a.localhost:1", "NAMED.example:9080"] {
        assert_eq!(as_host(&world, host, "/topics").await, StatusCode::OK, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example:9080", "localhost.evil.example"] {
        for path in ["/", "/api/v1/topics", "/metrics", "/style.css", "/nothing"] {
            assert_eq!(as_host(&world, host, path).await, StatusCode::MISDIRECTED_REQUEST, "{host}{path}");
        }
    }
    assert_eq!(as_host(&world, "not a host", "/").await, StatusCode::BAD_REQUEST);
    let nameless = Request::builder().uri("/").body(Body::empty()).unwrap();
    assert_eq!(world.send(nameless).await.status, StatusCode::BAD_REQUEST);
    let twice = request(Method::GET, "/").header(header::HOST, "localhost").body(Body::empty()).unwrap();
    assert_eq!(world.send(twice).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn programs_may_use_any_name_once_the_network_may_ask() {
    let world = World::listening_at("0.0.0.0:9080").await;
    for path in ["/metrics", "/health", "/ready"] {
        assert_eq!(as_host(&world, "ottla.monitoring.svc", path).await, StatusCode::OK, "{path}");
    }
    assert_eq!(as_host(&world, "ottla.monitoring.svc", "/topics").await, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn only_reading_is_allowed_but_for_aborts() {
    let world = World::new().await;
    for path in ["/", "/topics", "/api/v1/topics", "/metrics", "/transaction", "/api/v1/transaction/abort"] {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let answer = world.send(request(method.clone(), path).body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
        let head = world.send(request(Method::HEAD, path).body(Body::empty()).unwrap()).await;
        assert!(head.text.is_empty());
    }
    let answer = world.get("/api/v1/nothing").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.json()["error"].as_str().unwrap().contains("no page at this address"));
}

#[tokio::test]
async fn every_answer_binds_browsers() {
    let world = World::new().await;
    for path in ["/", "/nothing", "/api/v1/topics", "/metrics", "/style.css"] {
        let headers = world.get(path).await.headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe-inline"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}
