//! How many operands and results each operator has, and which versions of the standard changed it.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use crate::{Error, Node, Result, ValueId};

/// How many operands or results there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    least: usize,
    /// `None` where there may be any number.
    most: Option<usize>,
}

/// A version of the standard that changed an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    since: i64,
    /// It only accepts more than the one before.
    widens: bool,
    inputs: Count,
    outputs: Count,
}

type Signatures = HashMap<(&'static str, &'static str), Vec<Change>>;

fn table() -> &'static Signatures {
    static TABLE: OnceLock<Signatures> = OnceLock::new();
    TABLE.get_or_init(|| {
        parse(include_str!("signatures.txt")).expect("the table of signatures should be readable")
    })
}

fn parse(text: &'static str) -> Option<Signatures> {
    let mut signatures = HashMap::new();
    let mut domain = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("domain ") {
            domain = name;
            continue;
        }
        let mut words = line.split(' ');
        let name = words.next()?;
        let mut changes: Vec<Change> = Vec::new();
        for word in words {
            let (version, counts) = match word.split_once(':') {
                Some((version, counts)) => (version, Some(counts.split_once('/')?)),
                None => (word, None),
            };
            let (inputs, outputs) = match counts {
                Some((inputs, outputs)) => (Count::parse(inputs)?, Count::parse(outputs)?),
                None => changes.last().map(|last| (last.inputs, last.outputs))?,
            };
            let since = version.trim_end_matches('+').parse().ok()?;
            changes.push(Change { since, widens: version.ends_with('+'), inputs, outputs });
        }
        signatures.insert((domain, name), changes);
    }
    Some(signatures)
}

impl Count {
    /// `2`, `2-3`, or `2-` for two or more.
    fn parse(text: &str) -> Option<Self> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let most = if most.is_empty() { None } else { Some(most.parse().ok()?) };
        Some(Self { least: least.parse().ok()?, most })
    }

    fn allows(self, count: usize) -> bool {
        count >= self.least && self.most.is_none_or(|most| count <= most)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) if most == self.least => write!(f, "{most}"),
            Some(most) => write!(f, "{} to {most}", self.least),
            None => write!(f, "{} or more", self.least),
        }
    }
}

/// The place of the change that is in force in a version.
fn in_force(changes: &[Change], version: i64) -> Option<usize> {
    changes.iter().rposition(|change| change.since <= version)
}

/// Checks that the operator exists in the node's version of the standard, and takes and gives as many values
/// as the node says. Operators of domains that are not the standard's are not judged.
pub(crate) fn check(node: &Node) -> Result<()> {
    let Some(changes) = table().get(&(node.domain.as_str(), node.operator.as_str())) else {
        if table().keys().any(|(domain, _)| *domain == node.domain) {
            return Err(Error::unsupported(
                "an operator of this name; are upper and lower case right?",
            ));
        }
        return Ok(());
    };
    let (version, first) = (node.version, changes.first().map_or(0, |change| change.since));
    let Some(at) = in_force(changes, version) else {
        return Err(Error::operands(format!(
            "the operator came with version {first} of the standard, but the graph is written for {version}; \
             set the opset to {first} or more"
        )));
    };
    let change = changes[at];
    for (what, values, allowed) in
        [("operands", &node.inputs, change.inputs), ("results", &node.outputs, change.outputs)]
    {
        let found = without_omitted_end(values);
        if !allowed.allows(found) {
            return Err(Error::operands(format!(
                "in version {version} it has {allowed} {what}, but {found} were given"
            )));
        }
    }
    Ok(())
}

/// The number of values up to the last that is there.
fn without_omitted_end(values: &[Option<ValueId>]) -> usize {
    values.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
}

/// Whether a node that is written for one version means the same in another.
pub(crate) fn means_the_same(node: &Node, version: i64) -> bool {
    if node.version == version {
        return true;
    }
    let Some(changes) = table().get(&(node.domain.as_str(), node.operator.as_str())) else {
        return false;
    };
    match (in_force(changes, node.version), in_force(changes, version)) {
        (Some(from), Some(to)) if from <= to => {
            changes[from + 1..=to].iter().all(|change| change.widens)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::FAMILIES;
    use super::*;

    fn node(operator: &str, version: i64, inputs: usize, outputs: usize) -> Node {
        Node {
            path: "n".to_owned(),
            domain: String::new(),
            operator: operator.to_owned(),
            version,
            attributes: Default::default(),
            inputs: vec![Some(ValueId(0)); inputs],
            outputs: vec![Some(ValueId(1)); outputs],
        }
    }

    #[test]
    fn every_operator_has_a_signature() {
        for &(domain, family) in FAMILIES {
            for (name, _) in family {
                assert!(table().contains_key(&(domain, *name)), "{domain} {name}");
            }
        }
        for changes in table().values() {
            assert!(changes.is_sorted_by_key(|change| change.since) && !changes[0].widens);
        }
    }

    #[test]
    fn numbers_of_operands_depend_on_the_version() {
        assert!(check(&node("Clip", 6, 1, 1)).is_ok());
        assert!(check(&node("Clip", 11, 3, 1)).is_ok());
        let error = check(&node("Clip", 6, 3, 1)).unwrap_err().to_string();
        assert_eq!(error, "in version 6 it has 1 operands, but 3 were given");
        let error = check(&node("Concat", 13, 0, 1)).unwrap_err().to_string();
        assert!(error.contains("1 or more operands, but 0"), "{error}");
        let error = check(&node("Attention", 23, 3, 5)).unwrap_err().to_string();
        assert!(error.contains("1 to 4 results, but 5"), "{error}");
        let error = check(&node("Gelu", 17, 1, 1)).unwrap_err().to_string();
        assert!(error.contains("came with version 20"), "{error}");
    }

    #[test]
    fn only_changes_of_meaning_tie_a_node_to_its_version() {
        assert!(means_the_same(&node("Identity", 1, 1, 1), 25));
        assert!(means_the_same(&node("Softmax", 13, 1, 1), 17));
        assert!(!means_the_same(&node("Softmax", 11, 1, 1), 13));
        assert!(!means_the_same(&node("Identity", 25, 1, 1), 1));
        assert!(!means_the_same(&node("Own", 1, 1, 1), 2));
    }
}
