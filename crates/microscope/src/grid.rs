//! The bytes of a frame, each with the part of the frame that it belongs to.

use ottla_wire::explain::{Explanation, Region};

/// The number of bytes in a row.
pub const ROW: usize = 16;

/// A byte of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The byte.
    pub byte: u8,
    /// The part of the frame that it belongs to.
    pub region: Region,
    /// The innermost node that contains it, as an index in [`Explanation::nodes`].
    pub node: usize,
}

/// The bytes of a source (0 is the frame), in order.
pub fn cells(explained: &Explanation, source: u16) -> Vec<Cell> {
    let bytes = explained.source(source);
    let root = Cell { byte: 0, region: Region::Body, node: 0 };
    let mut cells: Vec<Cell> = bytes.iter().map(|byte| Cell { byte: *byte, ..root }).collect();
    // Children come after their parents and overwrite them.
    for (id, node) in explained.nodes().iter().enumerate().filter(|(_, node)| node.source == source) {
        let (from, size) = (node.at as usize, node.size as usize);
        for cell in cells.iter_mut().skip(from).take(size) {
            (cell.region, cell.node) = (node.region, id);
        }
    }
    cells
}
