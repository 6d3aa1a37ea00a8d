//! PTX as it is put into a binary: compressed, which makes it some ten times shorter.

use crate::manifest::text_hash;
use crate::{Build, Error};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The text as raw deflate data.
pub fn packed(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail; if it did, the shortened data would not unpack.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default()
}

/// A PTX file in packed form, beside its length as a text.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub packed_bytes: usize,
    /// That of the text.
    pub ptx_bytes: usize,
}

impl Build {
    /// Packs every PTX file into a folder, in the order of [`Build::files`]. What is there already of the same text
    /// is left as it is.
    ///
    /// # Errors
    /// `Io`.
    pub fn pack(&self, into: &Path) -> Result<Vec<PackedFile>, Error> {
        std::fs::create_dir_all(into).map_err(Error::io(into))?;
        let pack = |file: &crate::PtxFile| {
            let from = self.dir.join(&file.name);
            let text = std::fs::read_to_string(&from).map_err(Error::io(&from))?;
            let path = into.join(format!("{}.{}.deflate", file.name, text_hash(text.as_bytes())));
            let packed_bytes = match std::fs::metadata(&path) {
                Ok(there) if there.len() > 0 => there.len() as usize,
                _ => {
                    let packed = packed(&text);
                    // Whoever finds the name finds all of it.
                    let part = path.with_extension("part");
                    std::fs::write(&part, &packed).map_err(Error::io(&part))?;
                    std::fs::rename(&part, &path).map_err(Error::io(&path))?;
                    packed.len()
                }
            };
            Ok(PackedFile { path, packed_bytes, ptx_bytes: text.len() })
        };
        self.files.iter().map(pack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_packed_unpacks() {
        let text = ".visible .entry k(\n".repeat(1000);
        let packed = packed(&text);
        assert!(packed.len() < text.len() / 10);
        let mut again = String::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_string(&mut again).unwrap();
        assert_eq!(again, text);
    }
}
