//! The start page.

use crate::asked::{Asked, Refusal};
use crate::shell::Shell;
use askama::Template;
use serde::Serialize;

/// What the start page shows.
#[derive(Template, Serialize)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    #[serde(skip)]
    shell: Shell,
    cluster_id: String,
}

pub(crate) async fn overview(asked: Asked) -> Result<Overview, Refusal> {
    let broker = &asked.app.broker;
    Ok(Overview { shell: asked.shell("Overview", "Overview"), cluster_id: broker.cluster_id().to_owned() })
}
