//! The modules of a crate, and which of them each path in them means.

use super::super::Source;
use super::ModulePath;
use super::references::{Content, Import, PathUse, read};
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports may lead to re-exports; a chain longer than this is no chain that people write.
const STEPS: usize = 16;

/// The modules of one crate.
pub(super) struct Tree {
    modules: BTreeMap<ModulePath, Module>,
    /// File and content of each file.
    files: Vec<(String, Content)>,
}

/// What other modules can name in a module.
#[derive(Default)]
struct Module {
    items: BTreeSet<String>,
    imports: BTreeMap<String, PathUse>,
    globs: Vec<PathUse>,
}

impl Tree {
    /// Reads the files below `folder/src`, tests left out.
    pub(super) fn of(folder: &str, sources: &[Source]) -> Self {
        let prefix = format!("{folder}/src/");
        let mut files: Vec<(String, Content)> = Vec::new();
        for source in sources.iter().filter(|source| !source.is_test()) {
            if let Some(path) = source.file.strip_prefix(&prefix) {
                files.push((source.file.clone(), read(module_path(path), &source.tree)));
            }
        }
        let tests: Vec<ModulePath> =
            files.iter().flat_map(|(_, content)| content.test_modules.clone()).collect();
        files.retain(|(_, content)| !tests.iter().any(|test| content.modules[0].starts_with(test)));
        let mut tree = Self { modules: BTreeMap::new(), files };
        tree.fill();
        tree
    }

    fn fill(&mut self) {
        for (_, content) in &self.files {
            for path in &content.modules {
                self.modules.entry(path.clone()).or_default();
            }
            for (path, name) in &content.items {
                self.modules.entry(path.clone()).or_default().items.insert(name.clone());
            }
            for written in &content.written {
                let module = self.modules.entry(written.module.clone()).or_default();
                match &written.import {
                    Some(Import::Name(name)) => drop(module.imports.insert(name.clone(), written.clone())),
                    Some(Import::Glob) => module.globs.push(written.clone()),
                    None => {}
                }
            }
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &ModulePath> {
        self.modules.keys()
    }

    /// Each reference from a module to another: both paths, and the file and line.
    pub(super) fn references(&self) -> Vec<(ModulePath, ModulePath, String)> {
        let mut references = Vec::new();
        for (file, content) in &self.files {
            for written in &content.written {
                if let Some(to) = self.target(written, STEPS) {
                    references.push((written.module.clone(), to, format!("{file}:{}", written.line)));
                }
            }
        }
        references
    }

    /// The module a path means; none if it leads out of the crate.
    fn target(&self, written: &PathUse, steps: usize) -> Option<ModulePath> {
        let (base, rest) = self.absolute(written)?;
        Some(self.resolve(base, rest, steps))
    }

    /// The module where a path begins, and the names behind it.
    fn absolute<'a>(&self, written: &'a PathUse) -> Option<(ModulePath, &'a [String])> {
        let mut base = written.module.clone();
        let mut rest = written.segments.as_slice();
        let first = rest.first()?;
        match first.as_str() {
            "crate" => (base, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            name => drop(self.child(&base, name)?),
        }
        Some((base, rest))
    }

    fn child(&self, base: &ModulePath, name: &str) -> Option<ModulePath> {
        let path: ModulePath = base.iter().cloned().chain([name.to_owned()]).collect();
        self.modules.contains_key(&path).then_some(path)
    }

    /// Follows names from a module through its children and what it imports.
    fn resolve(&self, base: ModulePath, rest: &[String], steps: usize) -> ModulePath {
        let Some((name, behind)) = rest.split_first() else { return base };
        if let Some(child) = self.child(&base, name) {
            return self.resolve(child, behind, steps);
        }
        let Some(module) = self.modules.get(&base).filter(|_| steps > 0) else { return base };
        if module.items.contains(name) {
            return base;
        }
        if let Some(import) = module.imports.get(name) {
            let mut through = import.clone();
            through.segments.extend_from_slice(behind);
            return self.target(&through, steps - 1).unwrap_or(base);
        }
        let defines = |path: &ModulePath| self.modules.get(path).is_some_and(|one| one.items.contains(name));
        let globs = module.globs.iter().filter_map(|glob| self.target(glob, steps - 1));
        globs.into_iter().find(defines).unwrap_or(base)
    }
}

/// The module that a file below src/ stands for.
fn module_path(file: &str) -> ModulePath {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" || path == "main" {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_for_modules() {
        assert_eq!(module_path("lib.rs"), Vec::<String>::new());
        assert_eq!(module_path("a/b.rs"), ["a", "b"]);
        assert_eq!(module_path("a/mod.rs"), ["a"]);
    }
}
