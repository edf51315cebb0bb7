//! `ottla errors`: every error code of the protocol.

use super::failure::Failure;
use super::out::Out;
use clap::Args;
use ottla_wire::ErrorCode;
use serde_json::{Value, json};

/// List every error code: number, name, whether clients try again, meaning.
#[derive(Args)]
pub(crate) struct Errors {
    /// Print JSON instead of aligned text.
    #[arg(long)]
    json: bool,
}

impl Errors {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        if self.json {
            return Ok(out.json(&Value::Array(ErrorCode::all().map(described).collect()))?);
        }
        let row = |code: ErrorCode| {
            let retriable = if code.retriable() { "yes" } else { "no" };
            [code.0.to_string(), code.name().to_owned(), retriable.to_owned(), code.meaning().to_owned()]
                .into()
        };
        let rows: Vec<Vec<String>> = ErrorCode::all().map(row).collect();
        Ok(out.table(&["CODE", "NAME", "RETRIABLE", "MEANING"], &rows)?)
    }
}

fn described(code: ErrorCode) -> Value {
    json!({
        "code": code.0,
        "name": code.name(),
        "retriable": code.retriable(),
        "meaning": code.meaning(),
    })
}
