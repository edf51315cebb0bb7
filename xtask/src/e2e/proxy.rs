//! A TCP proxy between clients and broker that can lose an answer or cut every connection when a client program asks
//! for it. Its control port takes one word a line: `lose`, `drop`, `hits`; e2e/README.md says what they do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A running proxy; its threads end with the process.
pub(crate) struct Proxy {
    /// Where clients connect.
    pub(crate) port: u16,
    /// Where client programs send control words.
    pub(crate) control: u16,
}

#[derive(Default)]
struct State {
    links: Mutex<Vec<Arc<Link>>>,
    /// Answers swallowed so far.
    hits: AtomicUsize,
}

/// One client connection and its twin to the broker.
struct Link {
    client: TcpStream,
    broker: TcpStream,
    /// Whether the next answer is to be swallowed.
    armed: AtomicBool,
    cut: AtomicBool,
}

impl Link {
    fn cut(&self) {
        if !self.cut.swap(true, Ordering::SeqCst) {
            // Either side may have closed already.
            let _ = self.client.shutdown(Shutdown::Both);
            let _ = self.broker.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    /// Calls `act` on each connection that is open now and returns how many there were.
    fn each(&self, act: impl Fn(&Link)) -> usize {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| !link.cut.load(Ordering::SeqCst));
        links.iter().for_each(|link| act(link));
        links.len()
    }

    fn obey(&self, word: &str) -> String {
        match word {
            "lose" => {
                let armed = self.each(|link| link.armed.store(true, Ordering::SeqCst));
                format!("armed {armed}")
            }
            "drop" => format!("dropped {}", self.each(Link::cut)),
            "hits" => format!("hits {}", self.hits.load(Ordering::SeqCst)),
            other => format!("unknown word {other}"),
        }
    }
}

impl Proxy {
    /// Listens on two free ports; connections to the first are passed to `broker`.
    pub(crate) fn start(broker: SocketAddr) -> Result<Proxy, String> {
        let clients = listen()?;
        let control = listen()?;
        let state = Arc::new(State::default());
        let proxy = Proxy { port: port_of(&clients)?, control: port_of(&control)? };
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in clients.incoming().flatten() {
                link(&shared, client, broker);
            }
        });
        thread::spawn(move || {
            for stream in control.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve_control(&state, stream));
            }
        });
        Ok(proxy)
    }
}

fn listen() -> Result<TcpListener, String> {
    TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("the proxy cannot listen: {e}"))
}

fn port_of(listener: &TcpListener) -> Result<u16, String> {
    let address = listener.local_addr().map_err(|e| format!("the proxy cannot listen: {e}"))?;
    Ok(address.port())
}

/// Connects to the broker and starts the two copying threads; a broker that is away closes the client's connection.
fn link(state: &Arc<State>, client: TcpStream, broker: SocketAddr) {
    let Ok(broker) = TcpStream::connect(broker) else {
        return;
    };
    // Without these the proxy would only be slower.
    let _ = client.set_nodelay(true);
    let _ = broker.set_nodelay(true);
    let link = Arc::new(Link { client, broker, armed: AtomicBool::new(false), cut: AtomicBool::new(false) });
    let mut links = state.links.lock().unwrap_or_else(PoisonError::into_inner);
    links.retain(|link| !link.cut.load(Ordering::SeqCst));
    links.push(Arc::clone(&link));
    drop(links);
    let requests = Arc::clone(&link);
    thread::spawn(move || copy(&requests.client, &requests.broker, &requests, || false));
    let state = Arc::clone(state);
    thread::spawn(move || {
        copy(&link.broker, &link.client, &link, || {
            let lost = link.armed.swap(false, Ordering::SeqCst);
            if lost {
                state.hits.fetch_add(1, Ordering::SeqCst);
            }
            lost
        });
    });
}

/// Copies until one side closes or `lose` says so after a read; then both sides are closed.
fn copy(mut from: &TcpStream, mut to: &TcpStream, link: &Link, lose: impl Fn() -> bool) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        if lose() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    link.cut();
}

fn serve_control(state: &State, mut stream: TcpStream) {
    let Ok(input) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(input).lines().map_while(Result::ok) {
        let answer = state.obey(line.trim());
        if writeln!(stream, "{answer}").is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_armed_connection_loses_its_next_answer_after_the_request_arrived() {
        let broker = listen().unwrap();
        let address = broker.local_addr().unwrap();
        let proxy = Proxy::start(address).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        let (mut peer, _) = broker.accept().unwrap();
        let control = TcpStream::connect(("127.0.0.1", proxy.control)).unwrap();
        let mut answers = BufReader::new(control.try_clone().unwrap()).lines();
        let mut say = |word: &str| {
            writeln!(&control, "{word}").unwrap();
            answers.next().unwrap().unwrap()
        };
        assert_eq!(say("lose"), "armed 1");
        client.write_all(b"q").unwrap();
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        peer.write_all(b"a").unwrap();
        assert!(!matches!(client.read(&mut byte), Ok(n) if n > 0));
        assert_eq!(say("hits"), "hits 1");
        assert_eq!(say("drop"), "dropped 0");
    }
}
