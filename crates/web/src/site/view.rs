//! A frame that was taken apart, as rows for a template: the grid of bytes and the tree, each linked with the other.

use ottla_microscope::grid::{self, ROW};
use ottla_wire::explain::{Explained, Region};
use ottla_wire::tables::Direction;
use std::fmt::Write;

/// Bytes that a grid shows at most.
const MOST_BYTES: usize = 4096;
/// Nodes that a tree shows at most.
const MOST_NODES: usize = 4000;

/// What a template shows of a frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameView {
    /// Goes in front of every anchor, so that several frames fit on a page.
    pub(crate) id: String,
    pub(crate) rows: Vec<ByteRow>,
    pub(crate) nodes: Vec<NodeRow>,
    /// Bytes and nodes that are not shown.
    pub(crate) bytes_left: usize,
    pub(crate) nodes_left: usize,
    pub(crate) faults: Vec<String>,
}

/// A row of the grid.
#[derive(Clone, Debug)]
pub(crate) struct ByteRow {
    /// The place of its first byte, in hex.
    pub(crate) at: String,
    pub(crate) cells: Vec<ByteCell>,
}

/// A byte.
#[derive(Clone, Debug)]
pub(crate) struct ByteCell {
    pub(crate) at: usize,
    pub(crate) hex: String,
    /// The class that colours it.
    pub(crate) class: &'static str,
    /// The node it belongs to.
    pub(crate) node: usize,
}

/// A row of the tree.
#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) node: usize,
    pub(crate) label: String,
    pub(crate) ty: String,
    pub(crate) value: String,
    pub(crate) position: String,
    pub(crate) about: String,
    pub(crate) class: &'static str,
    /// First byte and number of bytes in the frame, unless it has none there.
    pub(crate) span: Option<(u32, u32)>,
    pub(crate) noted: bool,
}

/// An entry of the legend.
pub(crate) struct Legend {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
}

impl FrameView {
    pub(crate) fn new(id: impl Into<String>, explained: &Explained) -> FrameView {
        let cells = grid::cells(explained, 0);
        let shown = cells.get(..MOST_BYTES).unwrap_or(&cells);
        let rows = shown.chunks(ROW).enumerate().map(|(row, cells)| byte_row(row * ROW, cells)).collect();
        let nodes: Vec<NodeRow> = explained
            .rows()
            .into_iter()
            .zip(explained.nodes())
            .enumerate()
            .take(MOST_NODES)
            .map(|(id, ([label, ty, value, position, _], node))| NodeRow {
                node: id,
                label,
                ty,
                value,
                position,
                about: about(explained, id),
                class: class(node.region),
                span: (node.source == 0 && node.size > 0).then_some((node.at, node.size)),
                noted: node.note.is_some(),
            })
            .collect();
        FrameView {
            id: id.into(),
            bytes_left: cells.len() - shown.len(),
            nodes_left: explained.nodes().len() - nodes.len(),
            rows,
            nodes,
            faults: explained.faults().iter().map(ToString::to_string).collect(),
        }
    }
}

/// The meaning in full, as a page has room for it, with what is worth knowing.
fn about(explained: &Explained, id: usize) -> String {
    let mut text = explained.about_text(id).into_owned();
    if let Some(note) = explained.nodes().get(id).and_then(|node| node.note) {
        let joint = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{joint}{}", note.text());
    }
    text
}

fn byte_row(at: usize, cells: &[grid::Cell]) -> ByteRow {
    let cell = |(place, cell): (usize, &grid::Cell)| ByteCell {
        at: at + place,
        hex: format!("{:02x}", cell.byte),
        class: class(cell.region),
        node: cell.node,
    };
    ByteRow { at: format!("{at:04X}"), cells: cells.iter().enumerate().map(cell).collect() }
}

fn class(region: Region) -> &'static str {
    match region {
        Region::Frame => "frame",
        Region::Header => "header",
        Region::Body => "body",
        Region::RecordBatch => "batch",
        Region::Record => "record",
        Region::Tagged => "tags",
    }
}

/// The colours of the bytes.
pub(crate) fn legend(direction: Option<Direction>) -> Vec<Legend> {
    Region::ALL
        .into_iter()
        .map(|region| {
            let name = match (region, direction) {
                (Region::Body, Some(Direction::Request)) => "request body",
                (Region::Body, Some(Direction::Response)) => "response body",
                _ => region.name(),
            };
            Legend { class: class(region), name }
        })
        .collect()
}
