//! The state that every handler shares.

use ottla_broker::Context;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// The state that every handler shares.
#[derive(Clone)]
pub struct App {
    pub(crate) broker: Arc<Context>,
    /// A message once the log has failed.
    pub(crate) failure: watch::Receiver<Option<String>>,
    pub(crate) started: Instant,
    pub(crate) address: SocketAddr,
    /// Host names that a request may use besides IP addresses and localhost; lower case.
    pub(crate) names: Vec<String>,
    /// Part of every form that changes something. Other sites cannot read it, so only this server's pages can send such
    /// a form.
    pub(crate) token: String,
}

impl App {
    /// The state of a server. `failure` holds a message once the broker's log has failed. `address` is where HTTP
    /// listens. `names` are host names that a request may use besides IP addresses, localhost and the broker's
    /// advertised name.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
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
    /// Free bytes on the disk with the data; none if the data is in memory or the system call fails.
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
