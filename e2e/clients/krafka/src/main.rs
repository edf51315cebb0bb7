//! The krafka client of the end-to-end tests, run as `e2e-krafka BOOTSTRAP SCENARIO RUN_ID`; ../../README.md has the contract.
//! It must not know which broker it talks to.

mod admin;
mod groups;
mod plain;
mod txn;
mod world;

use krafka::Compression;
use serde_json::json;
use std::process::ExitCode;
use world::{Res, World};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, bootstrap, scenario, run] = arguments.as_slice() else {
        eprintln!("usage: e2e-krafka BOOTSTRAP SCENARIO RUN_ID");
        return ExitCode::from(2);
    };
    let outcome = match World::new(bootstrap, run).await {
        Ok(world) => run_one(&world, scenario).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Some(detail)) => say("pass", &detail),
        Ok(None) => say("cannot", "unknown scenario"),
        Err(error) if error.to_string() == plain::NO_PROXY => say("cannot", plain::NO_PROXY),
        Err(error) => {
            say("fail", &error.to_string());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn say(result: &str, detail: &str) {
    println!("{}", json!({"result": result, "detail": detail}));
}

/// What people should know about a pass; none when there is no such scenario.
async fn run_one(world: &World, scenario: &str) -> Res<Option<String>> {
    let detail = match scenario {
        "produce-consume-none" => plain::codec(world, Compression::None).await?,
        "produce-consume-gzip" => plain::codec(world, Compression::Gzip).await?,
        "produce-consume-snappy" => plain::codec(world, Compression::Snappy).await?,
        "produce-consume-lz4" => plain::codec(world, Compression::Lz4).await?,
        "produce-consume-zstd" => plain::codec(world, Compression::Zstd).await?,
        "admin" => admin::run(world).await?,
        "group-rebalance" => groups::rebalance(world).await?,
        "static-member" => groups::static_member(world).await?,
        "idempotent-reconnect" => plain::reconnect(world).await?,
        "txn-commit-abort" => txn::commit_abort(world).await?,
        "ctp" => txn::consume_transform_produce(world).await?,
        "zombie-fenced" => txn::zombie(world).await?,
        "read-committed-open" => txn::read_committed_open(world).await?,
        _ => return Ok(None),
    };
    Ok(Some(detail))
}
