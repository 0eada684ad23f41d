//! A strict reader of the pages: it panics on anything that is not well formed, so that every
//! test that reads a page also checks its form.

use std::collections::BTreeMap;

/// An element with what belongs to it.
#[derive(Debug, Clone, Default)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    /// The text directly inside, unescaped.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// This element and everything inside, in the order of the page.
    pub fn all(&self) -> Vec<&Element> {
        let mut found = vec![self];
        for child in &self.children {
            found.extend(child.all());
        }
        found
    }

    pub fn named(&self, name: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|element| element.name == name).collect()
    }

    pub fn with_class(&self, class: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|e| e.get("class").split(' ').any(|c| c == class)).collect()
    }

    /// An attribute, empty if there is none.
    pub fn get(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }

    pub fn number(&self, attribute: &str) -> f64 {
        let text = self.get(attribute);
        text.parse().unwrap_or_else(|_| panic!("{attribute}={text:?} of {}", self.name))
    }

    /// All text inside.
    pub fn words(&self) -> String {
        self.all().iter().map(|element| element.text.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// Reads a page.
pub fn parse(html: &str) -> Element {
    let mut rest = html.strip_prefix("<!DOCTYPE html>\n").expect("a doctype");
    let mut open: Vec<Element> = vec![Element::default()];
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        let top = open.last_mut().expect("an open element");
        top.text.push_str(&if top.name == "style" { text.to_owned() } else { unescape(text) });
        rest = after;
        let Some(inside) = rest.strip_prefix('<') else { break };
        if let Some(closing) = inside.strip_prefix('/') {
            let (name, after) = closing.split_once('>').expect("the end of a tag");
            let done = open.pop().expect("an open element");
            assert_eq!(done.name, name, "an element is closed by another's tag");
            open.last_mut().expect("a parent").children.push(done);
            rest = after;
            continue;
        }
        let (element, closed, after) = tag(inside);
        rest = after;
        if closed {
            open.last_mut().expect("a parent").children.push(element);
        } else {
            open.push(element);
        }
    }
    assert_eq!(open.len(), 1, "{} is not closed", open.last().expect("one").name);
    open.remove(0)
}

/// Reads a tag after its `<`: the element, whether it is closed by itself, and the rest.
fn tag(inside: &str) -> (Element, bool, &str) {
    let end = inside.find(|c: char| !c.is_ascii_alphanumeric()).expect("the end of a name");
    let mut element = Element { name: inside[..end].to_owned(), ..Element::default() };
    assert!(!element.name.is_empty(), "a tag without a name");
    let mut rest = &inside[end..];
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return (element, true, after);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (element, false, after);
        }
        let (name, after) = rest.split_once("=\"").expect("an attribute");
        assert!(name.chars().all(|c| c.is_ascii_alphabetic() || c == '-'), "attribute {name:?}");
        let (value, after) = after.split_once('"').expect("the end of a value");
        assert!(!value.contains('<'), "{value:?}");
        let before = element.attributes.insert(name.to_owned(), unescape(value));
        assert!(before.is_none(), "{name} twice in {}", element.name);
        rest = after;
    }
}

fn unescape(text: &str) -> String {
    for entity in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|known| entity.starts_with(known)), "a bare & before {entity:?}");
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// The subpaths of path data made of `M`, `L` and implied line-to, as points.
pub fn subpaths(data: &str) -> Vec<Vec<(f64, f64)>> {
    data.split('M')
        .skip(1)
        .map(|run| {
            let numbers: Vec<f64> = run
                .split(['L', ' '])
                .map(|number| number.parse().unwrap_or_else(|_| panic!("{number:?} in a path")))
                .collect();
            assert_eq!(numbers.len() % 2, 0, "half a point");
            numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        })
        .collect()
}
