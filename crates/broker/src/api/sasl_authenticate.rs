//! SaslAuthenticate 0-2: a token of the SASL exchange (KIP-152, KIP-368).

use super::Outcome;
use crate::context::Context;
use crate::login::TokenOutcome;
use crate::net::Reply;
use crate::session::Session;
use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use ottla_wire::{ErrorCode, Text};
use std::fmt::Write;
use tokio::time::{Instant, sleep};

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: SaslAuthenticateRequest,
    _version: i16,
) -> Outcome<SaslAuthenticateResponse> {
    match judge(ctx, session, &request.auth_bytes) {
        TokenOutcome::Challenge(token) => Outcome::Send(accepted(token)),
        TokenOutcome::Done(token, lifetime) => {
            let lifetime =
                lifetime.map_or(0, |lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX));
            Outcome::Send(SaslAuthenticateResponse { session_lifetime_ms: lifetime, ..accepted(token) })
        }
        TokenOutcome::Failed(why, delay) => {
            // S-107: neither the answer nor the end of the connection comes at once.
            sleep(delay).await;
            let refused = refused(ErrorCode::SASL_AUTHENTICATION_FAILED, &why);
            Outcome::SendAndClose(refused, format!("authentication failed: {why:?}"))
        }
        TokenOutcome::Illegal => {
            let why = "SaslAuthenticate is expected after SaslHandshake on a listener with SASL";
            Outcome::Send(refused(ErrorCode::ILLEGAL_SASL_STATE, why))
        }
    }
}

/// Answers a token that came without a request header, after version 0 of SaslHandshake (S-104).
pub(super) async fn answer_raw(ctx: &Context, session: &Session, token: &Bytes) -> Reply {
    match judge(ctx, session, token) {
        TokenOutcome::Challenge(token) | TokenOutcome::Done(token, _) => {
            let mut frame = BytesMut::with_capacity(4 + token.len());
            // A token is far below 4 GiB.
            frame.put_u32(u32::try_from(token.len()).unwrap_or(0));
            frame.put_slice(&token);
            Reply::Send(vec![frame.freeze()], None)
        }
        TokenOutcome::Failed(why, delay) => {
            sleep(delay).await;
            Reply::Close(format!("authentication failed: {why:?}"))
        }
        TokenOutcome::Illegal => Reply::Close("a SASL token is not expected".to_owned()),
    }
}

fn judge(ctx: &Context, session: &Session, token: &[u8]) -> TokenOutcome {
    let Some(login) = session.login() else { return TokenOutcome::Illegal };
    let Ok(random) = ctx.randomness.uuid() else { return TokenOutcome::Illegal };
    let nonce = random.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    login.token(ctx.shards.settings().access(), token, &nonce, Instant::now())
}

fn accepted(token: Vec<u8>) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_message: Some(Text::default()),
        auth_bytes: Bytes::from(token),
        ..Default::default()
    }
}

fn refused(code: ErrorCode, why: &str) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: code.0,
        error_message: Some(Text::from(why)),
        ..Default::default()
    }
}
