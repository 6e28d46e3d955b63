//! The disk interface of a journal, and its implementation on the file system.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The directory of one journal. Clones refer to the same directory.
///
/// Names are plain file names. Only [`DiskFile::sync`] and [`Disk::sync_dir`] make changes durable.
pub trait Disk: Clone + fmt::Debug + Send + 'static {
    /// An open file.
    type File: DiskFile;
    /// Lock on a file, held until it is dropped.
    type Lock: fmt::Debug + Send;

    /// Creates the directory durably, if it does not exist.
    fn make_dir(&self) -> io::Result<()>;
    /// Returns the names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file; truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file; atomically replaces a file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all file creations, renames and removals so far durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Locks the file `name` against other processes; returns `None` if it is locked already.
    fn lock(&self, name: &str) -> io::Result<Option<Self::Lock>>;
}

/// An open file.
// It has no `is_empty`: segments are never empty.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: fmt::Debug + Send + 'static {
    /// Returns the file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset` on; fails with `UnexpectedEof` if the file is shorter.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes zeros from `offset` to `end`, so that later writes there neither allocate space nor
    /// change the file system's metadata.
    fn allocate(&self, offset: u64, end: u64) -> io::Result<()>;
    /// Makes the file's content and length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// Open directory, after its first use. It stays open so that a process without free
    /// descriptors can still sync it.
    directory: Arc<OnceLock<File>>,
}

/// A file of the file system.
#[derive(Debug)]
pub struct RealFile(File);

impl RealDisk {
    /// Creates a handle of the directory `path`, without accessing it.
    pub fn new(path: impl Into<PathBuf>) -> RealDisk {
        RealDisk { path: path.into(), directory: Arc::default() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = File;

    fn make_dir(&self) -> io::Result<()> {
        let missing = self.path.ancestors().take_while(|path| !path.exists());
        let missing: Vec<&Path> = missing.filter(|path| !path.as_os_str().is_empty()).collect();
        fs::create_dir_all(&self.path)?;
        for made in missing {
            let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self.file(name)).map(RealFile)
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        OpenOptions::new().read(true).write(true).open(self.file(name)).map(RealFile)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.file(from), self.file(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.file(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        if let Some(directory) = self.directory.get() {
            return directory.sync_all();
        }
        let directory = File::open(&self.path)?;
        self.directory.get_or_init(|| directory).sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(self.file(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, mut offset: u64, end: u64) -> io::Result<()> {
        // Writes zeros instead of only reserving space: syncing overwritten zeros is a third faster
        // than filling a hole.
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while offset < end {
            let step = (end - offset).min(ZEROS.len() as u64);
            match self.0.write_at(&ZEROS[..step as usize], offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => offset += written as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
