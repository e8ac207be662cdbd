//! Imports go down: between the modules of the root package by its floors, and in no package in a circle
//! between files of different folders. The walls between crates are the compiler's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex_lite::Regex;

use crate::sources::{read, repository, rust_files};

/// The modules of the root package, from the top floor down. A module uses only those on lower floors.
pub(crate) const FLOORS: [&[&str]; 9] = [
    &["cli"],
    &["jobs"],
    &["operator"],
    &["public"],
    &["state"],
    &["notify", "health", "diagnosis", "feed_watch", "slow_reports", "sandbox_server"],
    &["metrics", "openapi", "images"],
    &["http"],
    &["config"],
];

/// A module by its names from the package's root.
type Module = Vec<String>;

/// The modules of a package, and which of them each one imports from.
struct Package {
    modules: BTreeSet<Module>,
    imports: BTreeMap<Module, BTreeSet<Module>>,
    /// What modules name by the package's root, which exports it for other packages.
    through_root: Vec<String>,
}

impl Package {
    /// Reads the package whose sources are below `folder`, without its tests.
    fn read(folder: &str) -> Self {
        let mut texts: BTreeMap<Module, String> = BTreeMap::new();
        let mut test_modules: Vec<Module> = Vec::new();
        let test_module = Regex::new(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod (\w+)\s*([;{])").unwrap();
        let comment = Regex::new(r"//[^\n]*").unwrap();
        for path in rust_files(folder) {
            let module = module_of(path.strip_prefix(folder).unwrap());
            let mut text = read(&path);
            while let Some(found) = test_module.captures(&text) {
                test_modules.push(module.iter().cloned().chain([found[1].to_owned()]).collect());
                let whole = found.get(0).unwrap().range();
                // A module of tests in braces stands at the end of its file.
                let end = if &found[2] == "{" { text.len() } else { whole.end };
                text.replace_range(whole.start..end, "");
            }
            texts.insert(module, comment.replace_all(&text, "").into_owned());
        }
        texts.retain(|module, _| !test_modules.iter().any(|test| module.starts_with(test)));
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        let exports: BTreeMap<&Module, BTreeMap<String, Vec<String>>> =
            texts.iter().map(|(module, text)| (module, exports_of(text))).collect();
        let imports = texts.iter().map(|(module, text)| {
            let targets =
                paths_in(text).into_iter().filter_map(|path| resolve(&modules, &exports, module, &path));
            // A module and what it is made of belong together.
            let others = targets.filter(|target| !target.starts_with(module) && !module.starts_with(target));
            (module.clone(), others.collect())
        });
        let imports = imports.collect();
        let through_root =
            texts.iter().filter(|(module, _)| !module.is_empty()).flat_map(|(module, text)| {
                let ends_in_root =
                    |path: &Vec<String>| resolve(&modules, &BTreeMap::new(), module, path) == Some(vec![]);
                let paths = paths_in(text).into_iter().filter(ends_in_root);
                paths
                    .map(|path| format!("{} uses {}", module.join("::"), path.join("::")))
                    .collect::<Vec<_>>()
            });
        let through_root = through_root.collect();
        Self { modules, imports, through_root }
    }

    /// The imports between the modules directly below `parent`, each with all that it is made of.
    fn imports_between_children_of(&self, parent: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let child = |module: &'_ Module| -> Option<usize> {
            (module.len() > parent.len() && module.starts_with(parent)).then_some(parent.len())
        };
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, targets) in &self.imports {
            let Some(at) = child(module) else { continue };
            let targets = targets.iter().filter(|target| child(target).is_some() && target[at] != module[at]);
            imports.entry(&module[at]).or_default().extend(targets.map(|target| target[at].as_str()));
        }
        imports
    }

    /// Whether a module is made of several files.
    fn has_folder(&self, module: &Module) -> bool {
        self.modules.iter().any(|other| other.len() > module.len() && other.starts_with(module))
    }
}

fn module_of(path: &Path) -> Module {
    let names = path.with_extension("");
    let mut names: Module = names.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// What a module exports under its own name, each with the path behind `pub use`.
fn exports_of(text: &str) -> BTreeMap<String, Vec<String>> {
    let export = Regex::new(r"pub(?:\([^)]*\))? use ([^;]+);").unwrap();
    let mut exports = BTreeMap::new();
    for found in export.captures_iter(text) {
        for mut path in expand(&found[1]) {
            if path.first().is_some_and(|first| first == "self") {
                path.remove(0);
            }
            if let Some(name) = path.pop() {
                exports.insert(name, path);
            }
        }
    }
    exports
}

/// Every path of this package that a text names: in `use` and where it is used.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let import = Regex::new(r"\buse ((?:crate|super|self)::[^;]+);").unwrap();
    let path = Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").unwrap();
    let imports = import.captures_iter(text).flat_map(|found| expand(&found[1]));
    let paths = path.find_iter(text).map(|found| found.as_str().split("::").map(str::to_owned).collect());
    imports.chain(paths).collect()
}

/// The paths of a tree such as `a::{b, c::{d, e}}`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.split(" as ").next().unwrap_or_default().trim();
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split("::").map(|name| name.trim().to_owned()).collect()];
    };
    let before: Vec<String> =
        before.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty()).flat_map(expand);
    parts.map(|part| before.iter().cloned().chain(part).collect()).collect()
}

/// The module whose file defines what a path in `from` names.
fn resolve(
    modules: &BTreeSet<Module>,
    exports: &BTreeMap<&Module, BTreeMap<String, Vec<String>>>,
    from: &Module,
    path: &[String],
) -> Option<Module> {
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        _ => (from.clone(), path),
    };
    while let Some((name, further)) = rest.split_first() {
        match name.as_str() {
            "self" => {}
            "super" => {
                at.pop();
            }
            name => {
                let below: Module = at.iter().cloned().chain([name.to_owned()]).collect();
                if !modules.contains(&below) {
                    break;
                }
                at = below;
            }
        }
        rest = further;
    }
    // What is exported again is defined further below.
    if let Some(inner) = rest.first().and_then(|name| exports.get(&at)?.get(name)) {
        let path: Vec<String> = inner.iter().cloned().chain(rest.first().cloned()).collect();
        let is_own = inner.first().is_some_and(|first| {
            modules.contains(&at.iter().cloned().chain([first.clone()]).collect::<Module>())
        });
        if is_own {
            let path: Vec<String> = ["self".to_owned()].into_iter().chain(path).collect();
            return resolve(modules, exports, &at, &path);
        }
    }
    modules.contains(&at).then_some(at)
}

/// The folders of every package of the workspace.
fn package_folders() -> Vec<String> {
    let mut folders = vec!["src".to_owned()];
    for entry in repository().join("crates").read_dir().unwrap() {
        folders.push(format!("crates/{}/src", entry.unwrap().file_name().to_str().unwrap()));
    }
    folders
}

#[test]
fn no_circle_of_imports_ties_modules_that_have_folders() {
    let mut circles = Vec::new();
    for folder in package_folders() {
        let package = Package::read(&folder);
        let count: usize = package.imports.values().map(BTreeSet::len).sum();
        assert!(count > 0 || package.modules.len() < 4, "{folder}: no import was read");
        let parents: BTreeSet<&[String]> =
            package.modules.iter().filter_map(|module| Some(module.split_last()?.1)).collect();
        for parent in parents {
            let imports = package.imports_between_children_of(parent);
            for (child, targets) in &imports {
                for target in
                    targets.iter().filter(|target| child < *target && reaches(&imports, target, child))
                {
                    let has_folder = |name: &&str| {
                        let module: Module = parent.iter().cloned().chain([(**name).to_owned()]).collect();
                        package.has_folder(&module)
                    };
                    if has_folder(child) || has_folder(target) {
                        circles.push(format!("{folder}/{}: {child} and {target}", parent.join("/")));
                    }
                }
            }
        }
    }
    assert!(circles.is_empty(), "folders import each other:\n{}", circles.join("\n"));
}

/// Whether imports lead from one module to another.
fn reaches(imports: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(module) = waiting.pop() {
        for target in imports.get(module).into_iter().flatten() {
            if *target == to {
                return true;
            }
            if reached.insert(*target) {
                waiting.push(target);
            }
        }
    }
    false
}

#[test]
fn the_modules_of_the_service_use_only_those_below_them() {
    let package = Package::read("src");
    let floor_of = |module: &Module| {
        let name = module.first()?.as_str();
        Some(
            FLOORS
                .iter()
                .position(|floor| floor.contains(&name))
                .unwrap_or_else(|| panic!("the module {name} has no floor yet: add it to FLOORS")),
        )
    };
    for name in FLOORS.iter().copied().flatten() {
        assert!(
            package.modules.contains(&vec![(*name).to_owned()]),
            "FLOORS has {name}, and src has no such module"
        );
    }
    let mut upward = Vec::new();
    for (module, targets) in &package.imports {
        for target in targets.iter().filter(|target| target.first() != module.first()) {
            let (Some(from), Some(to)) = (floor_of(module), floor_of(target)) else { continue };
            if to <= from {
                upward.push(format!("{} uses {}", module.join("::"), target.join("::")));
            }
        }
    }
    assert!(upward.is_empty(), "imports that do not go down:\n{}", upward.join("\n"));
}

/// `lib.rs` of the store is a table of contents for other packages. A module that imported from it would stand below all
/// that the store can do, and no floor would be left.
#[test]
fn the_modules_of_the_store_use_only_those_below_them() {
    let store = Package::read("crates/store/src");
    assert!(
        store.through_root.is_empty(),
        "name the module that defines it:\n{}",
        store.through_root.join("\n")
    );
    let imports = store.imports_between_children_of(&[]);
    assert!(imports.len() > 20, "the imports of the store were not read");
    let in_circles: Vec<&str> =
        imports.keys().copied().filter(|module| reaches(&imports, module, module)).collect();
    assert!(in_circles.is_empty(), "these modules use each other in circles:\n{}", in_circles.join("\n"));
}

/// A file that no `mod` declares is never compiled, so its tests never run.
#[test]
fn every_file_is_declared_by_the_module_above_it() {
    let of_tests = ["xtask/src", "tests/api", "tests/house", "tests/proofs"].map(str::to_owned);
    let of_benches = ["allocations", "audit", "exchange", "images"].map(|name| format!("benches/{name}"));
    let mut lost = Vec::new();
    for folder in package_folders().into_iter().chain(of_tests).chain(of_benches) {
        let mut texts: BTreeMap<Module, String> = BTreeMap::new();
        for path in rust_files(&folder) {
            texts.entry(module_of(path.strip_prefix(&folder).unwrap())).or_default().push_str(&read(&path));
        }
        for (name, above) in texts.keys().filter_map(|module| module.split_last()) {
            let is_declared = texts.get(above).is_some_and(|text| text.contains(&format!("mod {name};")));
            // A module may name its file by `#[path]`.
            let is_named = || texts.values().any(|text| text.contains(&format!("{name}.rs\"]")));
            if !is_declared && !is_named() {
                lost.push(format!("{folder}/{}/{name}", above.join("/")));
            }
        }
    }
    assert!(lost.is_empty(), "no module declares:\n{}", lost.join("\n"));
}
