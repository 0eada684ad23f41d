//! Tables.

use crate::text::{escape, put};

/// A table of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The names of the columns; none for a table without a head.
    pub header: Vec<String>,
    /// The rows, from top to bottom. Short ones are filled up with empty cells.
    pub rows: Vec<Vec<String>>,
    /// Which columns hold numbers, which are aligned on the right; the others are text.
    pub numeric: Vec<bool>,
    /// What the table shows; none if empty.
    pub caption: String,
}

impl Table {
    /// The table, in a box that scrolls where the table is wider than the page.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).fold(self.header.len(), usize::max);
        let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>");
        if !self.caption.is_empty() {
            put!(&mut out, "<caption>{}</caption>", escape(&self.caption));
        }
        if !self.header.is_empty() {
            out.push_str("<thead>");
            self.row(&mut out, &self.header, columns, "th scope=\"col\"", "th");
            out.push_str("</thead>");
        }
        out.push_str("<tbody>");
        for row in &self.rows {
            self.row(&mut out, row, columns, "td", "td");
        }
        out.push_str("</tbody></table></div>");
        out
    }

    fn row(&self, out: &mut String, cells: &[String], columns: usize, open: &str, close: &str) {
        out.push_str("<tr>");
        for column in 0..columns {
            let class = match self.numeric.get(column) {
                Some(true) => " class=\"num\"",
                _ => "",
            };
            let cell = cells.get(column).map_or("", String::as_str);
            put!(out, "<{open}{class}>{}</{close}>", escape(cell));
        }
        out.push_str("</tr>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ragged_rows_are_filled_up() {
        let table = Table {
            header: vec!["a".into(), "b".into()],
            rows: vec![vec!["1".into()], vec!["1".into(), "2".into(), "<3>".into()]],
            numeric: vec![false, true],
            caption: String::new(),
        };
        let html = table.render();
        assert_eq!(html.matches("<tr>").count(), 3);
        assert_eq!(html.matches("<th ").count(), 3);
        assert_eq!(html.matches("<td").count(), 6);
        assert_eq!(html.matches("class=\"num\"").count(), 3);
        assert!(html.contains("&lt;3&gt;") && !html.contains("caption"));
    }
}
