//! Are pictures as they should be: inside of their bounds, well formed, readable without eyes, and as before?

mod bounds;
mod golden;
mod samples;
