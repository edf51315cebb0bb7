//! The table of stock clients (e2e/clients.toml), what each needs installed, and one run of one program.

use super::secured::Secured;
use crate::process;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program is killed after this time and its scenario has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// One client; e2e/README.md says what each field means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) language: String,
    needs: Option<String>,
    #[serde(default)]
    manifests: Vec<String>,
    #[serde(default)]
    install: Vec<Vec<String>>,
    #[serde(default)]
    build: Vec<Vec<String>>,
    run: Vec<String>,
}

#[derive(Deserialize)]
struct Table {
    #[serde(default)]
    client: Vec<Client>,
}

/// How a scenario ended for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Pass,
    Fail,
    /// The client lacks what the scenario needs.
    Cannot,
    /// The runner lacks it: the broker is not behind the proxy.
    Skip,
}

/// A mark and one sentence about it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub(crate) mark: Mark,
    pub(crate) detail: String,
}

impl Verdict {
    pub(crate) fn new(mark: Mark, detail: impl Into<String>) -> Verdict {
        Verdict { mark, detail: detail.into() }
    }
}

/// What a client program is given.
pub(crate) struct Task<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) scenario: &'a str,
    pub(crate) run_id: &'a str,
    /// The proxy's control port, when the broker is behind one.
    pub(crate) control: Option<u16>,
    /// How the broker is reached, if it takes clients over SASL_SSL only.
    pub(crate) secured: Option<&'a Secured>,
}

/// Reads e2e/clients.toml and keeps the clients asked for; all of them when none is named.
pub(crate) fn load(names: &[String]) -> Result<Vec<Client>, String> {
    let path = process::root().join("e2e/clients.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let table: Table = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let known: Vec<_> = table.client.iter().map(|c| c.name.clone()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("no client {name}; there are {}", known.join(", ")));
    }
    let wanted = |client: &Client| names.is_empty() || names.contains(&client.name);
    Ok(table.client.into_iter().filter(wanted).collect())
}

fn cache() -> PathBuf {
    process::root().join("target/e2e")
}

impl Client {
    fn folder(&self) -> PathBuf {
        process::root().join("e2e/clients").join(&self.name)
    }

    fn out(&self) -> PathBuf {
        cache().join(&self.name)
    }

    fn words(&self, words: &[String]) -> Vec<String> {
        let out = self.out().display().to_string();
        let cache = cache().display().to_string();
        let fill = |word: &String| word.replace("{out}", &out).replace("{cache}", &cache);
        words.iter().map(fill).collect()
    }

    /// Installs what the client needs, when its manifests or commands changed, and builds its program.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let (folder, out) = (self.folder(), self.out());
        fs::create_dir_all(&out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
        if let Some(package) = &self.needs {
            process::install_package(package)?;
        }
        let stamp = out.join("installed");
        let wanted = self.fingerprint(&folder)?;
        if fs::read_to_string(&stamp).map_or(true, |done| done != wanted) {
            eprintln!("e2e: installing {}", self.title);
            for words in &self.install {
                process::run(&folder, &self.words(words))?;
            }
            fs::write(&stamp, wanted).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
        }
        for words in &self.build {
            process::run(&folder, &self.words(words))?;
        }
        Ok(())
    }

    /// Everything the installation depends on, as one text.
    fn fingerprint(&self, folder: &Path) -> Result<String, String> {
        let mut text = format!("{:?}\n", self.install);
        for name in &self.manifests {
            let path = folder.join(name);
            let manifest =
                fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            text.push_str(&manifest);
        }
        Ok(text)
    }

    /// Runs one scenario; the second value is what the program said on stderr.
    pub(crate) fn run(&self, task: &Task) -> (Verdict, String) {
        match self.launch(task) {
            Ok(output) => (judge(&output), output.stderr),
            Err(error) => (Verdict::new(Mark::Fail, error), String::new()),
        }
    }

    fn launch(&self, task: &Task) -> Result<process::Output, String> {
        let mut command = process::command(&self.folder(), &self.words(&self.run))?;
        command.args([task.bootstrap, task.scenario, task.run_id]);
        match task.control {
            Some(port) => command.env("E2E_PROXY_CONTROL", format!("127.0.0.1:{port}")),
            None => command.env_remove("E2E_PROXY_CONTROL"),
        };
        if let Some(secured) = task.secured {
            command.envs(secured.environment());
        }
        process::capture(&mut command, LIMIT)
    }
}

/// The one JSON line and the exit code must agree; anything else has failed.
fn judge(output: &process::Output) -> Verdict {
    let Some(status) = output.status else {
        let limit = LIMIT.as_secs();
        return Verdict::new(Mark::Fail, format!("no end after {limit} s, killed"));
    };
    let mut lines = output.stdout.lines().filter(|line| !line.trim().is_empty());
    let (line, more) = (lines.next().unwrap_or_default(), lines.next());
    if more.is_some() {
        return Verdict::new(Mark::Fail, "more than one line on stdout");
    }
    let Ok(json) = serde_json::from_str::<serde_json::Value>(line) else {
        return Verdict::new(Mark::Fail, format!("no JSON line on stdout, {status}"));
    };
    let detail = json["detail"].as_str().unwrap_or_default();
    match (json["result"].as_str(), status.success()) {
        (Some("pass"), true) => Verdict::new(Mark::Pass, detail),
        (Some("cannot"), true) => Verdict::new(Mark::Cannot, detail),
        (Some("fail"), false) => Verdict::new(Mark::Fail, detail),
        (result, _) => Verdict::new(Mark::Fail, format!("{result:?} with {status}: {detail}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(script: &str) -> Verdict {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        judge(&process::capture(&mut command, LIMIT).unwrap())
    }

    #[test]
    fn the_line_and_the_exit_code_must_agree() {
        let pass = r#"echo '{"result":"pass","detail":"seen"}'"#;
        assert_eq!(judged(pass), Verdict::new(Mark::Pass, "seen"));
        let cannot = r#"echo '{"result":"cannot","detail":"no admin"}'"#;
        assert_eq!(judged(cannot), Verdict::new(Mark::Cannot, "no admin"));
        let fail = r#"echo '{"result":"fail","detail":"lost"}'; exit 1"#;
        assert_eq!(judged(fail), Verdict::new(Mark::Fail, "lost"));
        assert_eq!(judged(&format!("{pass}; exit 1")).mark, Mark::Fail);
        assert_eq!(judged(&format!("{pass}; {pass}")).mark, Mark::Fail);
        assert_eq!(judged("true").mark, Mark::Fail);
    }

    #[test]
    fn the_committed_table_is_well_formed() {
        assert!(load(&[]).is_ok());
        assert!(load(&["unknown".to_owned()]).is_err());
    }
}
