//! SaslHandshake 0-1: the client chooses a SASL mechanism. After version 0 its tokens have no request header.

use super::Outcome;
use crate::context::Context;
use crate::login::Handshake;
use crate::session::Session;
use ottla_wire::messages::{SaslHandshakeRequest, SaslHandshakeResponse};
use ottla_wire::{ErrorCode, Text};
use tokio::time::Instant;

pub(crate) async fn answer(
    _ctx: &Context,
    session: &Session,
    request: SaslHandshakeRequest,
    version: i16,
) -> Outcome<SaslHandshakeResponse> {
    let outcome = match session.login() {
        // S-100: this listener has no SASL.
        None => Handshake::Illegal,
        Some(login) => login.handshake(&request.mechanism, version == 0, Instant::now()),
    };
    let response = |code: ErrorCode, mechanisms: Vec<&'static str>| SaslHandshakeResponse {
        error_code: code.0,
        mechanisms: mechanisms.into_iter().map(Text::from_static).collect(),
        ..Default::default()
    };
    match outcome {
        Handshake::Begun => Outcome::Send(response(ErrorCode::NONE, enabled(session))),
        Handshake::Illegal => Outcome::Send(response(ErrorCode::ILLEGAL_SASL_STATE, Vec::new())),
        Handshake::Unsupported(enabled) => {
            let why = format!(
                "the client chose the SASL mechanism {:?}, enabled are {enabled:?}",
                request.mechanism
            );
            Outcome::SendAndClose(response(ErrorCode::UNSUPPORTED_SASL_MECHANISM, enabled), why)
        }
    }
}

fn enabled(session: &Session) -> Vec<&'static str> {
    let options = session.listener.login.iter();
    options.flat_map(|options| options.mechanisms.keys()).map(|mechanism| mechanism.name()).collect()
}
