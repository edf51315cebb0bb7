//! `cargo xtask apis`: gathers the header of each file in crates/broker/src/api into docs/evidence/apis.md, the list of
//! served APIs.

mod errors;

use crate::process;
use ottla_wire::API_TABLE;
use std::collections::BTreeMap;
use std::fs;

/// What to do with the page.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail if the page is not up to date, instead of writing it.
    #[arg(long)]
    check: bool,
}

/// What an API's file says in its first lines.
struct ApiHeader {
    versions: String,
    what: String,
    left_out: String,
}

/// Writes or checks the page, and what the reference says of error codes.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let served = served()?;
    let errors = errors::gather(served.keys().map(String::as_str))?;
    for (path, text) in [("docs/evidence/apis.md", page(&served)), ("crates/web/data/errors.tsv", errors)] {
        let whole = process::root().join(path);
        if !options.check {
            fs::write(&whole, text).map_err(|e| format!("cannot write {path}: {e}"))?;
        } else if fs::read_to_string(&whole).ok().as_ref() != Some(&text) {
            return Err(format!("{path} is not up to date: run `cargo xtask apis`"));
        }
    }
    Ok(())
}

fn served() -> Result<BTreeMap<String, ApiHeader>, String> {
    let folder = process::root().join("crates/broker/src/api");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            found.extend(header(&text));
        }
    }
    Ok(found)
}

/// Parses `Name LOW-HIGH: what it does. Left out: what is missing.`, the first paragraph of a file's header. Later
/// paragraphs are notes on the implementation. None if the file does not begin with the name of an API.
fn header(text: &str) -> Option<(String, ApiHeader)> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let text = lines.map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let (head, rest) = text.split_once(": ")?;
    let (name, versions) = head.split_once(' ')?;
    API_TABLE.iter().find(|api| api.name == name)?;
    let (what, left_out) = match rest.split_once("Left out: ") {
        Some((what, left_out)) => (what.trim(), left_out.trim()),
        None => (rest.trim(), ""),
    };
    let left_out = if left_out == "nothing." { "" } else { left_out };
    let served =
        ApiHeader { versions: versions.to_owned(), what: what.to_owned(), left_out: left_out.to_owned() };
    Some((name.to_owned(), served))
}

fn page(served: &BTreeMap<String, ApiHeader>) -> String {
    let mut page = "# APIs\n\n\
        The APIs that Ottla serves, with their versions, and what each leaves out. `cargo xtask apis` writes this page from the headers\n\
        of the files in crates/broker/src/api. The version ranges are those of Apache Kafka 4.4; ApiVersions reports the same ranges.\n\n\
        | key | API | versions | what it does | left out |\n| ---: | --- | --- | --- | --- |\n"
        .to_owned();
    let mut absent = Vec::new();
    for api in API_TABLE {
        match served.get(api.name) {
            Some(one) => page.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                api.key.0, api.name, one.versions, one.what, one.left_out
            )),
            None => absent.push(api.name),
        }
    }
    page.push_str(&format!("\n## Not served\n\n{}.\n", absent.join(", ")));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_taken_apart() {
        let text =
            "//! EndTxn 0-5: a transaction\n//! ends. Left out: nothing.\n//!\n//! A note.\n\nuse x;\n";
        let (name, served) = header(text).unwrap();
        assert_eq!((name.as_str(), served.versions.as_str()), ("EndTxn", "0-5"));
        assert_eq!((served.what.as_str(), served.left_out.as_str()), ("a transaction ends.", ""));
        assert!(header("//! Rows of configuration: shared.\n").is_none());
    }
}
