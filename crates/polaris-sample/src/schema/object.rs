//! Objects: properties in the order of the schema, some of them optional, then others.

use super::compare::offers_more;
use super::json::Json;
use super::shape::Shape;
use super::{Converter, Part};
use crate::Result;
use crate::grammar::expr::Expr;

impl<'a> Converter<'a> {
    /// The schemas of a property: those listed for it, and of schemas that do not list it, those for all others.
    pub(super) fn property_parts(&self, shape: &Shape<'a>, name: &str) -> Vec<Part<'a>> {
        let schema = |object: &super::shape::Object<'a>| {
            let listed = object.properties.iter().find(|(key, _)| key == name);
            listed.map(|(_, schema)| schema).or(object.additional)
        };
        shape.objects.iter().filter_map(schema).map(Part::new).collect()
    }

    pub(super) fn object(&mut self, shape: &Shape<'a>, at: &Json) -> Result<Expr> {
        let mut names: Vec<&'a str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let listed = shape.objects.iter().flat_map(|object| object.properties);
        let listed = listed.map(|(name, _)| name.as_str()).chain(shape.required.iter().copied());
        for name in listed {
            if seen.insert(name) {
                names.push(name);
            }
        }
        // Each name is looked up in the lists of properties.
        self.count_work(names.len() * names.len() / 8)?;
        let more = offers_more(shape);
        let enough = shape.min_properties <= shape.required.len() as u64;
        let few = shape.max_properties.is_none_or(|most| !more && names.len() as u64 <= most);
        if !enough || !few {
            let what = "`minProperties` above the number of required properties, or `maxProperties` below all";
            return Err(self.unsupported(at, what));
        }
        let required: std::collections::HashSet<&str> = shape.required.iter().copied().collect();
        let space = self.base("space");
        let separated = |member: Expr| Expr::Sequence(vec![Expr::text(","), space.clone(), member]);

        // What follows a member, and what comes while there is none yet.
        let mut after = Expr::empty();
        let mut first = Expr::empty();
        if more {
            let schemas = shape.objects.iter().filter_map(|object| object.additional);
            let value = self.rule(&schemas.map(Part::new).collect::<Vec<_>>())?;
            let name = self.other_name(&names)?;
            let member = self.member(name, value);
            let member = Expr::Rule(self.rules.add("member", member)?);
            after = separated(member.clone()).repeat(0, None);
            first = Expr::Sequence(vec![member, after.clone()]).optional();
        }
        for &name in names.iter().rev() {
            let parts = self.property_parts(shape, name);
            let value = self.rule(&parts)?;
            let member = self.member(self.name(name), value);
            let member = Expr::Rule(self.rules.add("member", member)?);
            let following = Expr::Rule(self.rules.add("members", after)?);
            let beginning = Expr::Sequence(vec![member.clone(), following.clone()]);
            let (next, begin) = match required.contains(name) {
                true => (separated(member), beginning),
                false => {
                    let without = Expr::Rule(self.rules.add("members", first)?);
                    (separated(member).optional(), Expr::Choice(vec![beginning, without]))
                }
            };
            after = Expr::Sequence(vec![next, following]);
            first = begin;
        }
        let space = self.base("space");
        Ok(Expr::Sequence(vec![Expr::text("{"), space.clone(), first, space, Expr::text("}")]))
    }

    fn member(&self, name: Expr, value: Expr) -> Expr {
        let space = self.base("space");
        Expr::Sequence(vec![name, space.clone(), Expr::text(":"), space, value])
    }
}
