//! What every handler has at hand.

use ottla_broker::Context;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// What every handler has at hand.
#[derive(Clone)]
pub struct App {
    pub(crate) broker: Arc<Context>,
    /// Holds a message once the log has failed.
    pub(crate) failure: watch::Receiver<Option<String>>,
    pub(crate) started: Instant,
    pub(crate) address: SocketAddr,
    /// Names beside IP addresses and localhost under which requests may come.
    pub(crate) names: Vec<String>,
    /// Goes into every form that changes something, so that only our own pages can send one.
    pub(crate) token: String,
}

impl App {
    /// Gathers what handlers need. `failure` holds a message once the broker's log has failed; `address` is where HTTP listens;
    /// `names` are host names under which requests may come, beside IP addresses, localhost and the broker's advertised name.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(
        broker: Arc<Context>,
        failure: watch::Receiver<Option<String>>,
        address: SocketAddr,
        mut names: Vec<String>,
    ) -> Result<App, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        names.push(broker.advertised().host.clone());
        names.iter_mut().for_each(|name| name.make_ascii_lowercase());
        let token = format!("{:032x}", u128::from_be_bytes(random));
        Ok(App { broker, failure, started: Instant::now(), address, names, token })
    }
}

impl App {
    /// Bytes that can still be written where the data is; none in memory, or if the system does not say.
    pub(crate) fn disk_free(&self) -> Option<u64> {
        self.broker.reader().free_space().ok().filter(|free| *free < u64::MAX)
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("address", &self.address)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
