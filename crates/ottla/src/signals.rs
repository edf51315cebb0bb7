//! The signals that end a command or make it read its files again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn stop_signal() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// The SIGHUPs that this process receives; none if the system refuses to deliver them.
pub(crate) fn reload_signal() -> Option<Signal> {
    signal(SignalKind::hangup()).ok()
}
