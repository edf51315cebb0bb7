//! `cargo xtask pages`: the reference and the broker's pages in a real browser, Debian's Chromium driven by Playwright.

use crate::process::{self, Guard};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{net, thread};

/// How long the broker may take until its pages are there.
const START: Duration = Duration::from_secs(10);

/// Installs what is needed, starts a broker in memory, and runs e2e/pages.
pub(crate) fn run() -> Result<(), String> {
    let root = process::root();
    process::install_package("chromium")?;
    let folder = root.join("e2e/pages");
    process::run(&folder, &["npm", "ci", "--silent", "--no-audit", "--no-fund"])?;
    process::run(&root, &["cargo", "build", "--release", "--quiet", "-p", "ottla"])?;
    let ottla = process::built("release/ottla");
    let site = root.join("target/site");
    process::run(&root, &[ottla.as_os_str(), "site".as_ref(), site.as_os_str()])?;
    let (kafka, http) = (process::local(process::free_port()?), process::local(process::free_port()?));
    let data = root.join(format!("target/pages-{}", http.port()));
    let mut serve = process::command(&root, &[ottla.as_os_str(), "serve".as_ref()])?;
    serve.arg("--listen").arg(kafka.to_string()).arg("--http").arg(http.to_string());
    serve.arg("--data").arg(&data).stdout(Stdio::null()).stderr(Stdio::null());
    let broker = Guard::start(&mut serve)?;
    let deadline = Instant::now() + START;
    while net::TcpStream::connect(http).is_err() {
        if Instant::now() > deadline {
            return Err(format!("no pages at {http} after {START:?}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let url = format!("http://{http}");
    let words =
        ["node".as_ref(), "pages.mjs".as_ref(), "/usr/bin/chromium".as_ref(), site.as_os_str(), url.as_ref()];
    let outcome = process::run(&folder, &words);
    broker.kill();
    std::fs::remove_dir_all(&data).map_err(|why| format!("{}: {why}", data.display()))?;
    outcome
}
