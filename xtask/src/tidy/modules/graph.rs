//! The modules of one folder level and the references between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One reference from a module to its sibling.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) from: String,
    pub(super) to: String,
    /// File and line of the reference.
    pub(super) place: String,
}

/// Siblings and their references.
#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeSet<String>,
    /// All references of each pair, in the order of the files.
    edges: BTreeMap<(String, String), Vec<Reference>>,
}

impl Graph {
    pub(super) fn add_node(&mut self, name: &str) {
        self.nodes.insert(name.to_owned());
    }

    pub(super) fn add(&mut self, reference: Reference) {
        let pair = (reference.from.clone(), reference.to.clone());
        self.edges.entry(pair).or_default().push(reference);
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(String::as_str)
    }

    /// One reference of each pair.
    pub(super) fn edges(&self) -> impl Iterator<Item = &Reference> {
        self.edges.values().filter_map(|places| places.first())
    }

    fn outgoing<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a Reference> {
        self.edges().filter(move |edge| edge.from == from)
    }

    /// For each node reachable from `start` over at least one reference: the last reference of a shortest way there.
    fn reach(&self, start: &str) -> BTreeMap<&str, &Reference> {
        let mut reached: BTreeMap<&str, &Reference> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for edge in self.outgoing(node) {
                if !reached.contains_key(edge.to.as_str()) {
                    reached.insert(&edge.to, edge);
                    queue.push_back(&edge.to);
                }
            }
        }
        reached
    }

    /// The shortest cycle through a node, if there is any.
    fn cycle_through(&self, start: &str) -> Option<Vec<&Reference>> {
        let reached = self.reach(start);
        let mut cycle = vec![*reached.get(start)?];
        while let Some(first) = cycle.first().filter(|edge| edge.from != start) {
            let before = *reached.get(first.from.as_str())?;
            cycle.insert(0, before);
        }
        Some(cycle)
    }

    /// Groups of nodes that reach each other.
    fn knots(&self) -> Vec<BTreeSet<&str>> {
        let reach: BTreeMap<&str, BTreeMap<&str, &Reference>> =
            self.nodes().map(|node| (node, self.reach(node))).collect();
        let mut knots: Vec<BTreeSet<&str>> = Vec::new();
        for node in self.nodes().filter(|node| reach[node].contains_key(node)) {
            if knots.iter().any(|knot| knot.contains(node)) {
                continue;
            }
            let mutual = |other: &&str| reach[node].contains_key(other) && reach[other].contains_key(node);
            knots.push(self.nodes().filter(mutual).collect());
        }
        knots
    }

    /// A shortest cycle of each group of nodes that reach each other.
    pub(super) fn circles(&self) -> Vec<Vec<&Reference>> {
        let shortest = |knot: BTreeSet<&str>| {
            knot.into_iter().filter_map(|node| self.cycle_through(node)).min_by_key(Vec::len)
        };
        self.knots().into_iter().filter_map(shortest).collect()
    }

    /// Each pair inside a circle with the places of its references.
    pub(super) fn edges_in_circles(&self) -> Vec<(&str, &str, Vec<String>)> {
        let knots = self.knots();
        let inside = |from: &str, to: &str| knots.iter().any(|knot| knot.contains(from) && knot.contains(to));
        let pairs = self.edges.iter().filter(|((from, to), _)| inside(from, to));
        pairs
            .map(|((from, to), places)| {
                (from.as_str(), to.as_str(), places.iter().map(|one| one.place.clone()).collect())
            })
            .collect()
    }

    /// The nodes by level: a node stands above all it refers to, nodes of a circle on one level.
    pub(super) fn levels(&self) -> Vec<Vec<String>> {
        let knots = self.knots();
        let knot_of = |node: &str| knots.iter().position(|knot| knot.contains(node));
        let mut level: BTreeMap<&str, usize> = self.nodes().map(|node| (node, 0)).collect();
        // Each round raises at least one node, or ends; a chain has at most as many levels as there are nodes.
        for _ in 0..self.nodes.len() {
            for edge in self.edges() {
                let same = knot_of(&edge.from).is_some() && knot_of(&edge.from) == knot_of(&edge.to);
                let least = level[edge.to.as_str()] + usize::from(!same);
                let group =
                    knot_of(&edge.from).map_or_else(|| [edge.from.as_str()].into(), |at| knots[at].clone());
                for node in group {
                    level.entry(node).and_modify(|at| *at = (*at).max(least));
                }
            }
        }
        let mut levels = vec![Vec::new(); level.values().max().map_or(0, |top| top + 1)];
        for (node, at) in level {
            levels[at].push(node.to_owned());
        }
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for &(from, to) in edges {
            graph.add_node(from);
            graph.add_node(to);
            graph.add(Reference { from: from.to_owned(), to: to.to_owned(), place: format!("{from}{to}") });
        }
        graph
    }

    #[test]
    fn the_shortest_cycle_of_each_knot_is_found() {
        let graph =
            graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "b"), ("x", "y"), ("y", "x"), ("x", "a")]);
        let circles = graph.circles();
        let places: Vec<Vec<&str>> =
            circles.iter().map(|one| one.iter().map(|edge| edge.place.as_str()).collect()).collect();
        assert_eq!(places, [["bc", "cb"], ["xy", "yx"]]);
    }

    #[test]
    fn a_node_stands_above_what_it_refers_to() {
        let graph = graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "c")]);
        assert_eq!(graph.levels(), [vec!["c", "d"], vec!["b"], vec!["a"]]);
    }
}
