//! What is written: a table as CSV, the same as Markdown, and plots.

mod earlier;
mod judge;
mod markdown;
mod plot;
mod row;
mod summary;
mod table;

pub use earlier::Earlier;
pub use judge::Judge;
pub use markdown::markdown;
pub use plot::{Roofs, plot};
pub use row::{COLUMNS, Row};
pub use summary::Summary;
pub use table::{Provenance, Writer};
