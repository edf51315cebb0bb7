//! A decoded frame as rows for a template: the grid of bytes and the tree, linked with each other.

use ottla_microscope::grid::{self, ROW};
use ottla_wire::explain::{Explanation, Region};
use ottla_wire::tables::Direction;
use std::fmt::Write;

/// The most bytes that a grid shows.
const MAX_BYTES: usize = 4096;
/// The most nodes that a tree shows.
const MAX_NODES: usize = 4000;

/// The rows of a frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameView {
    /// Prefix of every anchor, so that a page can show several frames.
    pub(crate) id: String,
    pub(crate) rows: Vec<ByteRow>,
    pub(crate) nodes: Vec<NodeRow>,
    /// Bytes and nodes beyond those that are shown.
    pub(crate) bytes_left_out: usize,
    pub(crate) nodes_left_out: usize,
    pub(crate) faults: Vec<String>,
}

/// A row of the grid.
#[derive(Clone, Debug)]
pub(crate) struct ByteRow {
    /// The position of its first byte, in hex.
    pub(crate) at: String,
    pub(crate) cells: Vec<ByteCell>,
}

/// A byte.
#[derive(Clone, Debug)]
pub(crate) struct ByteCell {
    pub(crate) at: usize,
    pub(crate) hex: String,
    /// The CSS class of its colour.
    pub(crate) class: &'static str,
    /// The innermost node that contains it.
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
    /// First byte and number of bytes in the frame; none for a node without bytes or in decompressed records.
    pub(crate) span: Option<(u32, u32)>,
    pub(crate) has_note: bool,
}

/// An entry of the legend.
pub(crate) struct LegendEntry {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
}

impl FrameView {
    pub(crate) fn new(id: impl Into<String>, explained: &Explanation) -> FrameView {
        let cells = grid::cells(explained, 0);
        let shown = cells.get(..MAX_BYTES).unwrap_or(&cells);
        let rows = shown.chunks(ROW).enumerate().map(|(row, cells)| byte_row(row * ROW, cells)).collect();
        let nodes: Vec<NodeRow> = explained
            .rows()
            .into_iter()
            .zip(explained.nodes())
            .enumerate()
            .take(MAX_NODES)
            .map(|(id, ([label, ty, value, position, _], node))| NodeRow {
                node: id,
                label,
                ty,
                value,
                position,
                about: about(explained, id),
                class: class(node.region),
                span: (node.source == 0 && node.size > 0).then_some((node.at, node.size)),
                has_note: node.note.is_some(),
            })
            .collect();
        FrameView {
            id: id.into(),
            bytes_left_out: cells.len() - shown.len(),
            nodes_left_out: explained.nodes().len() - nodes.len(),
            rows,
            nodes,
            faults: explained.faults().iter().map(ToString::to_string).collect(),
        }
    }
}

/// The full meaning of a node, with its note.
fn about(explained: &Explanation, id: usize) -> String {
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

/// The legend of the colours.
pub(crate) fn legend(direction: Option<Direction>) -> Vec<LegendEntry> {
    Region::ALL
        .into_iter()
        .map(|region| {
            let name = match (region, direction) {
                (Region::Body, Some(Direction::Request)) => "request body",
                (Region::Body, Some(Direction::Response)) => "response body",
                _ => region.name(),
            };
            LegendEntry { class: class(region), name }
        })
        .collect()
}
