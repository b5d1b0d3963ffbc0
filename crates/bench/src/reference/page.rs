//! The reference of parameters as a page.

/// The page, as Markdown.
pub fn page() -> String {
    String::new()
}
