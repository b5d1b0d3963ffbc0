//! Tables of pages: one row of heads, and rows that begin with a name. A table scrolls sideways in its own
//! region.

use std::fmt::{Display, Write};

use crate::escape::Esc;
use crate::number::NONE;

/// A table that is being written. Texts are escaped.
pub(crate) struct HtmlTable<'a> {
    out: &'a mut String,
}

impl<'a> HtmlTable<'a> {
    /// Begins a table with these CSS classes; `label` names its region.
    pub fn begin<T: Display>(
        label: impl Display,
        class: &str,
        heads: impl IntoIterator<Item = T>,
        out: &'a mut String,
    ) -> HtmlTable<'a> {
        HtmlTable::begin_explained(label, class, heads.into_iter().map(|head| (head, None::<&str>)), out)
    }

    /// Begins a table whose heads have a tooltip, if there is one.
    pub fn begin_explained<T: Display, M: Display>(
        label: impl Display,
        class: &str,
        heads: impl IntoIterator<Item = (T, Option<M>)>,
        out: &'a mut String,
    ) -> HtmlTable<'a> {
        let _ = write!(
            out,
            "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table class=\"{class}\">\n<thead><tr>",
            Esc(label)
        );
        for (head, meaning) in heads {
            let _ = match meaning {
                Some(meaning) => {
                    write!(out, "<th scope=\"col\" title=\"{}\">{}</th>", Esc(meaning), Esc(head))
                }
                None => write!(out, "<th scope=\"col\">{}</th>", Esc(head)),
            };
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        HtmlTable { out }
    }

    /// Adds a row.
    pub fn row<T: Display>(&mut self, name: impl Display, cells: impl IntoIterator<Item = T>) {
        self.name(name).cells(cells).end_row();
    }

    /// Begins a row.
    pub fn name(&mut self, name: impl Display) -> &mut Self {
        let _ = write!(self.out, "<tr><th scope=\"row\">{}</th>", Esc(name));
        self
    }

    /// Begins a row whose name has a tooltip.
    pub fn explained_name(&mut self, name: impl Display, meaning: impl Display) -> &mut Self {
        let _ = write!(self.out, "<tr><th scope=\"row\" title=\"{}\">{}</th>", Esc(meaning), Esc(name));
        self
    }

    /// Begins a row whose name is a link.
    pub fn linked_name(&mut self, name: impl Display, target: impl Display) -> &mut Self {
        let _ = write!(self.out, "<tr><th scope=\"row\"><a href=\"{}\">{}</a></th>", Esc(target), Esc(name));
        self
    }

    /// Adds cells to the row.
    pub fn cells<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        for cell in cells {
            let _ = write!(self.out, "<td>{}</td>", Esc(cell));
        }
        self
    }

    /// Adds cells of HTML to the row.
    pub fn html<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        for cell in cells {
            let _ = write!(self.out, "<td>{cell}</td>");
        }
        self
    }

    /// Adds cells to the row, in which zeros and missing values are grey.
    pub fn counts(&mut self, cells: impl IntoIterator<Item = String>) -> &mut Self {
        for cell in cells {
            let class = if cell == "0" || cell == NONE { " class=\"zero\"" } else { "" };
            let _ = write!(self.out, "<td{class}>{}</td>", Esc(cell));
        }
        self
    }

    /// Ends the row.
    pub fn end_row(&mut self) {
        self.out.push_str("</tr>\n");
    }

    /// Ends the table.
    pub fn end(self) {
        self.out.push_str("</tbody>\n</table></div>\n");
    }
}
