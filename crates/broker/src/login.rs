//! The login of a connection on a listener with SASL: who the client is, and until when (S-100 to S-119).
//!
//! ```text
//!   Fresh ──SaslHandshake──▶ Tokens ──last token──▶ Open ──lifetime over, SaslHandshake──▶ Tokens
//!                              │
//!                              └──wrong token──▶ Failed: the connection closes
//! ```

use crate::host::LiveAccess;
use crate::net::FrameBounds;
use ottla_auth::plain::PlainUsers;
use ottla_auth::scram::{
    ClientFirst, Credential, Decoy, MIN_ITERATIONS, Mechanism as Scram, ScramError, ServerExchange,
};
use ottla_types::record::ScramMechanism;
use ottla_wire::{ApiKey, Text};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A client may begin to authenticate again this long after it began the last time (S-117).
const REAUTHENTICATION_PAUSE: Duration = Duration::from_secs(1);

/// A SASL mechanism that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SaslMechanism {
    Plain,
    Scram(Scram),
}

impl SaslMechanism {
    /// All mechanisms.
    pub(crate) const ALL: [SaslMechanism; 3] =
        [SaslMechanism::Plain, SaslMechanism::Scram(Scram::Sha256), SaslMechanism::Scram(Scram::Sha512)];

    /// The name in SASL.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::Scram(scram) => scram.name(),
        }
    }
}

/// How clients of one listener authenticate.
#[derive(Clone, Debug)]
pub(crate) struct LoginOptions {
    /// The mechanisms, each with the time after which a client has to authenticate again, if it has to
    /// (`connections.max.reauth.ms`).
    pub(crate) mechanisms: BTreeMap<SaslMechanism, Option<Duration>>,
    /// The users of PLAIN.
    pub(crate) plain_users: PlainUsers,
    /// `sasl.server.max.receive.size`, in bytes.
    pub(crate) max_receive: usize,
    /// `connection.failed.authentication.delay.ms`.
    pub(crate) failure_delay: Duration,
    /// Makes salts for users that do not exist (S-134). Random bytes.
    pub(crate) scram_secret: [u8; 32],
}

/// The login of one connection.
#[derive(Debug)]
pub(crate) struct Login {
    options: Arc<LoginOptions>,
    bounds: Arc<FrameBounds>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// `User:name`, once the client has authenticated.
    principal: Option<Text>,
    /// When the client began to authenticate the last time.
    began: Option<Instant>,
    /// When the client has to have authenticated again.
    expires: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Fresh,
    Tokens { mechanism: SaslMechanism, is_raw: bool, exchange: Option<Box<ServerExchange>> },
    Open,
    Failed,
}

/// Why a request is not served now. The connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inadmissible {
    /// The client is not authenticated (S-101).
    NotAuthenticated,
    /// The client is in the middle of its authentication (S-105).
    Authenticating,
    /// The lifetime of the login is over (S-116).
    Expired,
}

impl fmt::Display for Inadmissible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Inadmissible::NotAuthenticated => "the client has to authenticate with SASL first",
            Inadmissible::Authenticating => "the client has to finish its authentication first",
            Inadmissible::Expired => {
                "the lifetime of the login is over, the client has to authenticate again"
            }
        })
    }
}

/// The outcome of a SaslHandshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// Tokens of the mechanism may follow.
    Begun,
    /// The mechanism is not enabled; these are.
    Unsupported(Vec<&'static str>),
    /// The client has no reason to authenticate now.
    Illegal,
}

/// The outcome of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenOutcome {
    /// The exchange continues after this token.
    Challenge(Vec<u8>),
    /// The client has authenticated. The last token, and how long the login lasts.
    Done(Vec<u8>, Option<Duration>),
    /// The client has not; the text is for the client. The connection closes after the delay.
    Failed(String, Duration),
    /// No token is expected.
    Illegal,
}

impl Login {
    /// The login of a new connection.
    pub(crate) fn new(options: Arc<LoginOptions>, bounds: Arc<FrameBounds>) -> Login {
        let state = State { phase: Phase::Fresh, principal: None, began: None, expires: None };
        Login { options, bounds, state: Mutex::new(state) }
    }

    /// The client's principal, once it has authenticated.
    pub(crate) fn principal(&self) -> Option<Text> {
        self.lock().principal.clone()
    }

    /// Whether the next frame is a token without a request header (S-104).
    pub(crate) fn expects_raw_token(&self) -> bool {
        matches!(self.lock().phase, Phase::Tokens { is_raw: true, .. })
    }

    /// Whether a request of this API may be served now.
    pub(crate) fn admit(&self, key: ApiKey, now: Instant) -> Result<(), Inadmissible> {
        let state = self.lock();
        match &state.phase {
            Phase::Fresh if [ApiKey::API_VERSIONS, ApiKey::SASL_HANDSHAKE].contains(&key) => Ok(()),
            Phase::Fresh | Phase::Failed => Err(Inadmissible::NotAuthenticated),
            Phase::Tokens { .. } if key == ApiKey::SASL_AUTHENTICATE => Ok(()),
            Phase::Tokens { .. } => Err(Inadmissible::Authenticating),
            Phase::Open => {
                let expired = state.expires.is_some_and(|expires| now >= expires);
                if expired && key != ApiKey::SASL_HANDSHAKE { Err(Inadmissible::Expired) } else { Ok(()) }
            }
        }
    }

    /// The client chooses a mechanism. With `is_raw` its tokens have no request header.
    pub(crate) fn handshake(&self, mechanism: &str, is_raw: bool, now: Instant) -> Handshake {
        let mut state = self.lock();
        let pause_over = state.began.is_none_or(|began| now >= began + REAUTHENTICATION_PAUSE);
        match state.phase {
            Phase::Fresh => {}
            Phase::Open if state.expires.is_some() && pause_over => {}
            Phase::Open | Phase::Tokens { .. } | Phase::Failed => return Handshake::Illegal,
        }
        let enabled = self.options.mechanisms.keys();
        let Some(mechanism) = enabled.clone().find(|enabled| enabled.name() == mechanism) else {
            state.phase = Phase::Failed;
            return Handshake::Unsupported(enabled.map(|enabled| enabled.name()).collect());
        };
        state.began = Some(now);
        state.phase = Phase::Tokens { mechanism: *mechanism, is_raw, exchange: None };
        if is_raw {
            self.bounds.expect_tokens();
        }
        Handshake::Begun
    }

    /// Judges a token of the client. `nonce` has 128 random bits as text.
    pub(crate) fn token(&self, access: &LiveAccess, token: &[u8], nonce: &str, now: Instant) -> TokenOutcome {
        let mut state = self.lock();
        let phase = std::mem::replace(&mut state.phase, Phase::Failed);
        let Phase::Tokens { mechanism, is_raw, exchange } = phase else {
            state.phase = phase;
            return TokenOutcome::Illegal;
        };
        let judged = match (mechanism, exchange) {
            (SaslMechanism::Plain, _) => self.plain(token),
            (SaslMechanism::Scram(scram), None) => self.scram_first(access, scram, token, nonce),
            (SaslMechanism::Scram(_), Some(exchange)) => scram_final(*exchange, token),
        };
        match judged {
            Ok(TokenVerdict::Challenge(exchange, challenge)) => {
                state.phase = Phase::Tokens { mechanism, is_raw, exchange: Some(exchange) };
                TokenOutcome::Challenge(challenge)
            }
            Ok(TokenVerdict::Authenticated(user, last)) => self.open(&mut state, mechanism, &user, last, now),
            Err(why) => {
                let again = state.principal.is_some();
                let why = why.unwrap_or_else(|| generic_failure(mechanism, again));
                TokenOutcome::Failed(why, self.options.failure_delay)
            }
        }
    }

    /// The client has authenticated as this user.
    fn open(
        &self,
        state: &mut State,
        mechanism: SaslMechanism,
        user: &str,
        last: Vec<u8>,
        now: Instant,
    ) -> TokenOutcome {
        let principal = format!("User:{user}");
        if let Some(before) = &state.principal
            && **before != *principal
        {
            let why = format!("Cannot change principals during re-authentication from {before}: {principal}");
            return TokenOutcome::Failed(why, self.options.failure_delay);
        }
        let lifetime = self.options.mechanisms.get(&mechanism).copied().flatten();
        state.principal = Some(Text::from(principal));
        state.expires = lifetime.map(|lifetime| now + lifetime);
        state.phase = Phase::Open;
        self.bounds.open();
        TokenOutcome::Done(last, lifetime)
    }

    fn plain(&self, token: &[u8]) -> Result<TokenVerdict, Option<String>> {
        let judged = self.options.plain_users.authenticate(token);
        judged
            .map(|user| TokenVerdict::Authenticated(user, Vec::new()))
            .map_err(|error| Some(error.to_string()))
    }

    fn scram_first(
        &self,
        access: &LiveAccess,
        scram: Scram,
        token: &[u8],
        nonce: &str,
    ) -> Result<TokenVerdict, Option<String>> {
        let first = ClientFirst::parse(token).map_err(|error| scram_text(&error))?;
        let credential = if first.is_token { None } else { credential(access, scram, &first.user) };
        let usual = access.usual_iterations(record_mechanism(scram));
        let iterations = usual.and_then(|count| u32::try_from(count).ok()).unwrap_or(MIN_ITERATIONS);
        let decoy = Decoy { secret: &self.options.scram_secret, iterations };
        let (exchange, challenge) = ServerExchange::begin(first, scram, credential, nonce, decoy);
        Ok(TokenVerdict::Challenge(Box::new(exchange), challenge))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token that is legal.
enum TokenVerdict {
    Challenge(Box<ServerExchange>, Vec<u8>),
    /// The user's name, and the last token.
    Authenticated(String, Vec<u8>),
}

fn scram_final(exchange: ServerExchange, token: &[u8]) -> Result<TokenVerdict, Option<String>> {
    let user = exchange.first().user.clone();
    let last = exchange.finish(token).map_err(|error| scram_text(&error))?;
    Ok(TokenVerdict::Authenticated(user, last))
}

fn record_mechanism(scram: Scram) -> ScramMechanism {
    match scram {
        Scram::Sha256 => ScramMechanism::Sha256,
        Scram::Sha512 => ScramMechanism::Sha512,
    }
}

fn credential(access: &LiveAccess, scram: Scram, user: &str) -> Option<Credential> {
    let known = access.scram_credential(user, record_mechanism(scram))?;
    Some(Credential {
        salt: known.salt.to_vec(),
        iterations: u32::try_from(known.iterations).unwrap_or(0),
        stored_key: known.stored_key.to_vec(),
        server_key: known.server_key.to_vec(),
    })
}

/// The text for a client; none for the generic one, which tells nothing of the user (S-109).
fn scram_text(error: &ScramError) -> Option<String> {
    match error {
        ScramError::OtherUser => Some(error.to_string()),
        ScramError::Malformed(_)
        | ScramError::ChannelBinding
        | ScramError::MandatoryExtension
        | ScramError::InvalidCredentials
        | ScramError::InvalidServer => None,
    }
}

fn generic_failure(mechanism: SaslMechanism, again: bool) -> String {
    let what = if again { "re-authentication" } else { "authentication" };
    let mechanism = mechanism.name();
    format!("Authentication failed during {what} due to invalid credentials with SASL mechanism {mechanism}")
}
