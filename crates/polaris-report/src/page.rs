//! The page: a title, facts, and sections of parts.

use crate::style::STYLE;
use crate::text::{escape, put};
use crate::{BarPlot, BlockPlot, ConfusionMatrix, HeatMap, LinePlot, Table};

/// A self-contained HTML page. Parts are added in the order in which they are read.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    lead: String,
    /// What comes before the first section.
    opening: String,
    sections: Vec<Section>,
}

#[derive(Debug, Clone)]
struct Section {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            lead: String::new(),
            opening: String::new(),
            sections: Vec::new(),
        }
    }

    /// A paragraph under the title: what a reader should know who reads nothing else.
    pub fn lead(mut self, text: &str) -> Self {
        put!(&mut self.lead, "<p class=\"lead\">{}</p>", escape(text));
        self
    }

    /// Starts a section; later parts belong to it.
    pub fn section(mut self, title: &str) -> Self {
        self.sections.push(Section { title: title.to_owned(), body: String::new() });
        self
    }

    /// Plain text; an empty line starts a new paragraph.
    pub fn text(mut self, text: &str) -> Self {
        let body = self.body();
        for paragraph in text.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
            put!(body, "<p>{}</p>", escape(paragraph));
        }
        self
    }

    /// A list of names and values: model, device, seed and the like.
    pub fn facts(mut self, facts: &[(&str, String)]) -> Self {
        let body = self.body();
        if !facts.is_empty() {
            body.push_str("<dl>");
            for (name, value) in facts {
                put!(body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
            }
            body.push_str("</dl>");
        }
        self
    }

    /// A table.
    pub fn table(self, table: &Table) -> Self {
        self.part(&table.render())
    }

    /// Curves.
    pub fn lines(self, plot: &LinePlot) -> Self {
        self.part(&plot.render())
    }

    /// Bars.
    pub fn bars(self, plot: &BarPlot) -> Self {
        self.part(&plot.render())
    }

    /// Rectangles.
    pub fn blocks(self, plot: &BlockPlot) -> Self {
        self.part(&plot.render())
    }

    /// A heat map.
    pub fn heat_map(self, map: &HeatMap) -> Self {
        self.part(&map.render())
    }

    /// A confusion matrix.
    pub fn matrix(self, matrix: &ConfusionMatrix) -> Self {
        self.part(&matrix.render())
    }

    /// Text whose lines and spaces stay as they are: a configuration, a sample of text.
    pub fn code(mut self, text: &str) -> Self {
        // HTML drops a line break right after the tag; this one is there to be dropped.
        put!(self.body(), "<pre tabindex=\"0\">\n{}</pre>", escape(text));
        self
    }

    /// The whole document, to be written as UTF-8.
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut out =
            String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
        out.push_str("<meta name=\"color-scheme\" content=\"light dark\"/>");
        put!(&mut out, "<title>{title}</title><style>{STYLE}</style></head>\n<body><main>");
        put!(&mut out, "<header><h1>{title}</h1>{}</header>\n{}", self.lead, self.opening);
        for section in &self.sections {
            put!(
                &mut out,
                "<section><h2>{}</h2>{}</section>\n",
                escape(&section.title),
                section.body
            );
        }
        out.push_str("</main></body></html>\n");
        out
    }

    fn part(mut self, html: &str) -> Self {
        self.body().push_str(html);
        self
    }

    /// Where the next part goes.
    fn body(&mut self) -> &mut String {
        match self.sections.last_mut() {
            Some(section) => &mut section.body,
            None => &mut self.opening,
        }
    }
}
