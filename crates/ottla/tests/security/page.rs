//! The set-ups of docs/guide/security.md, run as they are printed, but on free ports.

use crate::world::{Authority, Client};
use ottla_auth::scram::Mechanism;
use ottla_wire::messages::DescribeClusterRequest;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/guide/security.md");

/// The commands of the page that begin with these words, each as its arguments.
fn commands(words: &str) -> Vec<Vec<String>> {
    let page = PAGE.replace(" \\\n", " ");
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = lines.filter(|line| line.starts_with(words));
    // An argument in quotes has no blank in it.
    commands
        .map(|line| line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect())
        .collect()
}

/// A broker of the binary, killed when dropped.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `ottla serve` with these arguments, on a free port.
fn serve(arguments: &[String], folder: &Path) -> Running {
    let arguments = arguments.iter().skip(1).map(|argument| match argument.split_once('=') {
        Some((key @ ("listeners" | "advertised.listeners"), address)) => {
            let (address, _) = address.rsplit_once(':').unwrap();
            format!("{key}={address}:0")
        }
        _ => argument.clone(),
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(arguments)
        .env("OTTLA_HTTP", "off")
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split(['\u{20}', ',']).nth(3).unwrap().replace("0.0.0.0", "127.0.0.1");
    Running { address: address.parse().unwrap(), child }
}

/// Whether a client may do everything on the cluster.
fn rules_the_cluster(mut client: Client) -> bool {
    let request =
        DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    client.call(&request, 1).cluster_authorized_operations == 8096
}

#[test]
fn the_set_ups_of_the_page_run_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, clients) = (Authority::new("Server CA"), Authority::new("Client CA"));
    let server = servers.identity("broker");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("broker.pem", &format!("{}{}", server.key, server.chain));
    write("clients.pem", &clients.pem());
    write("ca.pem", &servers.pem());
    write("admin.password", "admin-secret\n");
    let [add] = &commands("ottla user add")[..] else { panic!("the page adds one user") };
    let added = Command::new(env!("CARGO_BIN_EXE_ottla")).args(&add[1..]).current_dir(folder.path()).output();
    let added = added.unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let [development, production, certificates] = &commands("ottla serve")[..] else {
        panic!("the page has three set-ups")
    };
    let log_in = |mut client: Client| {
        let last = client.log_in_scram(Mechanism::Sha512, "admin", "admin-secret");
        assert_eq!(last.error_code, 0);
        client
    };
    let broker = serve(development, folder.path());
    assert!(rules_the_cluster(log_in(Client::plain(broker.address))));
    drop(broker);
    let broker = serve(production, folder.path());
    assert!(rules_the_cluster(log_in(Client::encrypted(broker.address, &servers.pem(), None))));
    let [list] = &commands("ottla topic list")[..] else { panic!("the page lists topics") };
    let port = broker.address.port();
    let list = list.iter().skip(1).map(|word| word.replace(":9093", &format!(":{port}")));
    let listed = Command::new(env!("CARGO_BIN_EXE_ottla")).args(list).current_dir(folder.path()).output();
    let listed = listed.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    drop(broker);
    let broker = serve(certificates, folder.path());
    let client =
        |name: &str| Client::encrypted(broker.address, &servers.pem(), Some(&clients.identity(name)));
    assert!(rules_the_cluster(client("admin")));
    assert!(!rules_the_cluster(client("alice")));
}
