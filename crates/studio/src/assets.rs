//! The built page: files of `assets/`, embedded.

/// File of the page.
pub(crate) struct Asset {
    /// Its path, from `/` on.
    pub(crate) path: &'static str,
    /// Its media type.
    pub(crate) media_type: &'static str,
    /// Its bytes.
    pub(crate) bytes: &'static [u8],
}

/// Text in [`INDEX`] that each answer replaces by a new nonce: the editor adds styles with it.
pub(crate) const NONCE_PLACE: &str = "NONCE_OF_THIS_ANSWER";

/// The page itself.
pub(crate) const INDEX: &str = include_str!("../assets/index.html");

/// Files that the page loads.
pub(crate) const ASSETS: [Asset; 2] = [
    Asset {
        path: "/studio.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/studio.js"),
    },
    Asset {
        path: "/studio.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/studio.css"),
    },
];
