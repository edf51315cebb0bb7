//! References between the modules of a crate. On each folder level, a child module and all below it count as one node;
//! the references between siblings must form no circle, and none may run against an order declared in xtask/tidy.toml.
//! References between a module and the modules that contain it are not counted.

mod graph;
mod references;
mod tree;

use super::dependencies::Package;
use super::pending::settle;
use super::{Finding, Lists, Source};
use graph::{Graph, Reference};
use std::collections::BTreeMap;
use std::fmt::Write;
use tree::Tree;

/// The path of a module inside its crate; empty for the root.
type ModulePath = Vec<String>;

/// Finds circles and references against a declared order in every crate.
pub(super) fn check(packages: &[Package], sources: &[Source], lists: &Lists) -> Vec<Finding> {
    let mut circles = Vec::new();
    let mut findings = Vec::new();
    let mut levels = Vec::new();
    for package in packages {
        for (parent, graph) in levels_of(package, sources) {
            let level = std::iter::once(&package.name).chain(&parent).cloned().collect::<Vec<_>>().join("::");
            for circle in graph.circles() {
                let what = format!("modules refer to each other in a circle: {}", cycle_text(&circle));
                circles.push((package.folder.clone(), Finding { place: format!("crate {level}"), what }));
            }
            if let Some(layers) = lists.layers.get(&level) {
                let place = format!("layers.{level}");
                let problems = against_order(&graph, &layers.order);
                findings.extend(problems.into_iter().map(|what| Finding { place: place.clone(), what }));
            }
            levels.push(level);
        }
    }
    for level in lists.layers.keys().filter(|level| !levels.contains(level)) {
        let what = "is no module with children".to_owned();
        findings.push(Finding { place: format!("layers.{level}"), what });
    }
    findings.extend(settle("circles", &lists.pending.circles, circles));
    findings
}

/// The graph of each folder level that has more than one module, by the module that contains them.
fn levels_of(package: &Package, sources: &[Source]) -> BTreeMap<ModulePath, Graph> {
    let tree = Tree::of(&package.folder, sources);
    let mut levels: BTreeMap<ModulePath, Graph> = BTreeMap::new();
    for path in tree.paths().filter(|path| !path.is_empty()) {
        let (parent, name) = path.split_at(path.len() - 1);
        levels.entry(parent.to_vec()).or_default().add_node(&name[0]);
    }
    for (from, to, place) in tree.references() {
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if shared < from.len() && shared < to.len() {
            let reference = Reference { from: from[shared].clone(), to: to[shared].clone(), place };
            levels.entry(from[..shared].to_vec()).or_default().add(reference);
        }
    }
    levels
}

/// What runs against a declared order, and how the order differs from the modules that exist.
fn against_order(graph: &Graph, order: &[String]) -> Vec<String> {
    let rank = |name: &str| order.iter().position(|one| one == name);
    let mut problems = Vec::new();
    for name in graph.nodes().filter(|name| rank(name).is_none()) {
        problems.push(format!("{name} is not in the declared order"));
    }
    for name in order.iter().filter(|name| graph.nodes().all(|node| node != name.as_str())) {
        problems.push(format!("{name} is declared and does not exist"));
    }
    for edge in graph.edges() {
        if let (Some(from), Some(to)) = (rank(&edge.from), rank(&edge.to))
            && from < to
        {
            problems.push(format!("{} refers up to {} at {}", edge.from, edge.to, edge.place));
        }
    }
    problems
}

fn cycle_text(circle: &[&Reference]) -> String {
    let mut text = circle.first().map(|edge| edge.from.clone()).unwrap_or_default();
    for edge in circle {
        let _ = write!(text, " -> {} ({})", edge.to, edge.place);
    }
    text
}

/// The levels of a crate's modules as text, highest first; inside each circle every pair that refers to each other,
/// with places.
pub(super) fn describe(package: &Package, sources: &[Source]) -> String {
    let mut text = String::new();
    for (parent, graph) in levels_of(package, sources) {
        let parent = std::iter::once(&package.name).chain(&parent).cloned().collect::<Vec<_>>().join("::");
        let _ = writeln!(text, "{parent}");
        for (level, names) in graph.levels().iter().enumerate().rev() {
            let _ = writeln!(text, "  {level}: {}", names.join(", "));
        }
        for circle in graph.circles() {
            let _ = writeln!(text, "  circle: {}", cycle_text(&circle));
        }
        for (from, to, places) in graph.edges_in_circles() {
            let shown = places.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "    {from} -> {to}: {} references: {shown}", places.len());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> (Package, Vec<Source>) {
        let parse =
            |(file, text): &(&str, &str)| Source::parse(&format!("crates/x/src/{file}"), (*text).to_owned());
        let sources = files.iter().map(|file| parse(file).unwrap()).collect();
        (Package::for_test("x", "crates/x"), sources)
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let (package, sources) = package(files);
        let levels = levels_of(&package, &sources);
        levels
            .values()
            .flat_map(|graph| graph.circles().iter().map(|one| cycle_text(one)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn two_siblings_that_use_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() {\n    super::a::g();\n}"),
        ];
        assert_eq!(circles(&files), ["a -> b (crates/x/src/a.rs:1) -> a (crates/x/src/b.rs:2)"]);
        assert!(circles(&files[..2]).is_empty());
    }

    #[test]
    fn a_reexport_refers_to_the_module_that_defines() {
        let lib = ("lib.rs", "mod a; mod b; pub use b::{B as Renamed, c::*};");
        let b = ("b.rs", "pub mod c; use crate::a::A; pub struct B;");
        let c = ("b/c.rs", "pub struct C;");
        let found = ["a -> b (crates/x/src/a.rs:1) -> a (crates/x/src/b.rs:1)"];
        assert_eq!(circles(&[lib, ("a.rs", "use crate::Renamed;"), b, c]), found);
        assert_eq!(circles(&[lib, ("a.rs", "use crate::C;"), b, c]), found);
        assert!(circles(&[lib, ("a.rs", "use crate::Other;"), b, c]).is_empty());
    }

    #[test]
    fn children_count_as_their_folder_and_parents_do_not_count() {
        let up_and_down =
            [("lib.rs", "mod a;"), ("a.rs", "mod c; use c::C; pub struct A;"), ("a/c.rs", "use super::A;")];
        assert!(circles(&up_and_down).is_empty());
        let deep = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c; mod d;"),
            ("a/c.rs", "use crate::b::B; use super::d::D;"),
            ("a/d.rs", "pub struct D;"),
            ("b.rs", "fn f() -> u8 { g!(x, crate::a::d::D) }"),
        ];
        assert_eq!(circles(&deep), ["a -> b (crates/x/src/a/c.rs:1) -> a (crates/x/src/b.rs:1)"]);
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; #[cfg(test)] mod check;"),
            ("a/check.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }\n#[cfg(test)]\nmod late;"),
            ("b/late.rs", "use crate::a::A;"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_reference_against_the_declared_order_is_found() {
        let (package, sources) =
            package(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "")]);
        let levels = levels_of(&package, &sources);
        let judge = |order: &[&str]| {
            let order: Vec<String> = order.iter().map(|&name| name.to_owned()).collect();
            against_order(&levels[&Vec::new()], &order)
        };
        assert!(judge(&["b", "a"]).is_empty());
        assert_eq!(judge(&["a", "b"]), ["a refers up to b at crates/x/src/a.rs:1"]);
        assert_eq!(
            judge(&["b", "c"]),
            ["a is not in the declared order", "c is declared and does not exist"]
        );
    }

    #[test]
    fn levels_are_printed_highest_first() {
        let (package, sources) =
            package(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "")]);
        assert_eq!(describe(&package, &sources), "x\n  1: a\n  0: b\n");
    }
}
