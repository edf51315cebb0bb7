//! Fetch 4-18: whole batches from partitions, now or when there are enough of them.
//! Left out: followers (there are none), tiered storage, and diverging epochs: the one leader epoch never ends.

mod answer;
mod plan;
mod session;

pub(crate) use session::Sessions;

use super::subject::Reason;
use super::{Broken, Outcome};
use crate::context::{Caller, Context};
use crate::net::Hold;
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::messages::{FetchRequest, FetchResponse};
use plan::{Part, Planned, Reading, Terms};
use session::Begun;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// The most bytes of records in one answer (Kafka's `fetch.max.bytes` of the broker), but for a single batch that is larger.
const MOST_BYTES: i32 = 55 << 20;

/// How long an answer waits for room among those that peers have not taken. Then it goes without records, so that requests do not
/// pile up behind peers that take nothing; the client asks again.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// What a partition takes of an answer beside its records, about.
const BYTES_OF_A_ROW: u64 = 64;

pub(crate) async fn answer(
    ctx: &Context,
    _caller: &Caller,
    request: FetchRequest,
    version: i16,
) -> Outcome<FetchResponse> {
    match respond(ctx, request, version).await {
        Ok((response, hold)) => Outcome::Held(response, hold),
        Err(broken) => Outcome::Close(broken.to_string()),
    }
}

async fn respond(
    ctx: &Context,
    request: FetchRequest,
    version: i16,
) -> Result<(FetchResponse, Hold), Broken> {
    let terms = Terms {
        max_bytes: u64::try_from(request.max_bytes.min(MOST_BYTES)).unwrap_or(0),
        min_bytes: u64::try_from(request.min_bytes.min(request.max_bytes)).unwrap_or(0),
        isolation: super::isolation(request.isolation_level),
    };
    let patience = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let Begun { parts, session } = match ctx.fetch_sessions.begin(request, version) {
        Ok(begun) => begun,
        Err(code) => {
            ctx.refused("", code, &Reason(None, "the fetch session is not as the request expects it"));
            let refused = FetchResponse { error_code: code.0, ..Default::default() };
            return Ok((refused, ctx.answers.hold(0).await));
        }
    };
    let parts = Arc::new(parts);
    let (rows, hold) = wait_for_rows(ctx, &parts, terms, Instant::now() + patience).await?;
    let session_id = session.as_ref().map_or(0, |session| session.id);
    let shown = match session {
        Some(session) => ctx.fetch_sessions.finish(&session, &parts, rows),
        None => rows.into_iter().map(Some).collect(),
    };
    let responses = answer::by_topic(&parts, shown);
    Ok((FetchResponse { session_id, responses, ..Default::default() }, hold))
}

/// The rows of the answer, once there is enough in them, something to report, or no time left.
async fn wait_for_rows(
    ctx: &Context,
    parts: &Arc<Vec<Part>>,
    terms: Terms,
    deadline: Instant,
) -> Result<(Vec<PartitionData>, Hold), Broken> {
    loop {
        let mut planned = wait_for_enough(ctx, parts, terms, deadline).await?;
        let beside = parts.len() as u64 * BYTES_OF_A_ROW;
        let room = timeout(MOST_WAIT, ctx.answers.hold(planned.most() + beside)).await;
        let mut hold = match room {
            Ok(hold) => hold,
            Err(_) => {
                planned.empty();
                ctx.answers.hold(beside).await
            }
        };
        for (part, reading) in parts.iter().zip(&planned.readings) {
            if let Reading::Refused(code, why) = reading {
                ctx.refused(part, *code, why);
            }
        }
        let (promised, places) = (planned.bytes(), planned.places());
        let rows = answer::rows(ctx, parts, planned, terms.isolation).await?;
        let bytes = |row: &PartitionData| row.records.as_ref().map_or(0, |records| records.len() as u64);
        hold.shrink(beside + rows.iter().map(bytes).sum::<u64>());
        let news = rows.iter().any(|row| bytes(row) > 0 || row.error_code != 0);
        if news || promised == 0 || Instant::now() >= deadline {
            return Ok((rows, hold));
        }
        // Compaction left nothing where a part was thought to have something: as if nothing had been planned.
        let watch = ctx.host.peek(move |_, _, watchers| watchers.watch(places)).await?;
        tokio::select! {
            biased;
            () = watch.advanced() => {}
            () = sleep_until(deadline) => {}
        }
    }
}

/// Plans until there is enough to read, something to report, or no time left.
async fn wait_for_enough(
    ctx: &Context,
    parts: &Arc<Vec<Part>>,
    terms: Terms,
    deadline: Instant,
) -> Result<Planned, Broken> {
    loop {
        let may_wait = Instant::now() < deadline && !parts.is_empty();
        let parts = Arc::clone(parts);
        // What does not fit into the allowance comes with the next request.
        let terms = Terms { max_bytes: terms.max_bytes.min(ctx.answers.most()), ..terms };
        let look = ctx.host.peek(move |shard, _, watchers| {
            let planned = plan::plan(shard, &parts, terms);
            let waits = may_wait && !planned.is_enough(terms);
            let watch = waits.then(|| watchers.watch(planned.places()));
            (planned, watch)
        });
        let (planned, watch) = look.await?;
        let Some(watch) = watch else {
            if planned.is_refused() {
                // A topic that is gone or a log that starts later may not be durable yet.
                ctx.host.settled().await?;
            }
            return Ok(planned);
        };
        tokio::select! {
            biased;
            () = watch.advanced() => {}
            () = sleep_until(deadline) => {}
        }
    }
}
