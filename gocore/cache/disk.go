package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Disk is a directory of values that processes share: one file a key, written beside and renamed. It is bounded in
// bytes: a process that writes removes the files that have not been used for the longest time, by whatever stamp.
//
// Values are only trusted if they are this user's: the directory must belong to the user, and no one else may write to
// it. A stamp (what makes the values: the compiler and its version) is part of every file's name, so that several
// compilers share a directory. It stands in the file, beside the key and a checksum. A file that is foreign,
// truncated, corrupted, or under another file's name is a miss. So is what is not a regular file.
type Disk struct {
	dir      string
	readOnly bool
	room     int64 // bytes
	stamp    [sha256.Size]byte
}

// A file is magic, stamp, digest of the key, checksum of the value, length of the value, value.
const (
	magic      = "tgxcache2\n"
	headerSize = len(magic) + 3*sha256.Size + 8
)

// largest is the size of the largest file that is read; no compiled program comes near it.
const largest = 4 << 30

// ErrCorrupt is a file that is not what was written under its name.
var ErrCorrupt = errors.New("cache: corrupted file")

// OpenDisk opens a directory, made with mode 0700 if it is not there, and closed if others could read it. One of
// another user's, or that others can write to, is an error. stamp names what makes the values; room is how many bytes
// its files may take.
func OpenDisk(dir, stamp string, room int64, readOnly bool) (*Disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if !readOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("cache: %s must be a directory of this user that no one else can write to (mode 0700)", dir)
	}
	if mode := info.Mode().Perm(); !readOnly && mode&0o077 != 0 {
		if err := os.Chmod(dir, mode&0o700); err != nil {
			return nil, err
		}
	}
	return &Disk{dir: dir, readOnly: readOnly, room: room, stamp: sha256.Sum256([]byte(stamp))}, nil
}

// Key is the name of a value that is determined by these parts.
func Key(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// path is the file of a key: another stamp's has another name.
func (d *Disk) path(key string) string {
	return filepath.Join(d.dir, Key(d.stamp[:], []byte(key))+".bin")
}

// Has reports that there is a file for a key. What is in it, Get says.
func (d *Disk) Has(key string) bool {
	info, err := os.Lstat(d.path(key))
	return err == nil && info.Mode().IsRegular()
}

// Get reads a value. A key that is not there is an fs.ErrNotExist; a file that is damaged, or of another stamp
// under this one's name, is ErrCorrupt, and is removed so that it is written again.
func (d *Disk) Get(key string) ([]byte, error) {
	data, err := readFile(d.path(key))
	var value []byte
	switch {
	case errors.Is(err, ErrCorrupt):
	case err != nil:
		return nil, err
	default:
		value, err = d.open(key, data)
	}
	switch {
	case d.readOnly:
	case err != nil:
		err = errors.Join(err, os.RemoveAll(d.path(key))) // a directory too, into which no file could be renamed
	default:
		now := time.Now()
		_ = os.Chtimes(d.path(key), now, now) // used; the value is good if another process has removed it meanwhile
	}
	return value, err
}

// readFile reads a regular file, and never waits: a pipe or a device under a file's name is ErrCorrupt, as is a link.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV): // a link, a socket, a device
		return nil, ErrCorrupt
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > largest {
		return nil, ErrCorrupt
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, ErrCorrupt // it becomes shorter as it is read
	}
	return data, nil
}

// open is the value of a key in the data of a file.
func (d *Disk) open(key string, data []byte) ([]byte, error) {
	if len(data) < headerSize || !bytes.HasPrefix(data, []byte(magic)) {
		return nil, ErrCorrupt
	}
	header, value := data[len(magic):headerSize], data[headerSize:]
	stamp, of, sum, size := header[:sha256.Size], header[sha256.Size:2*sha256.Size], header[2*sha256.Size:3*sha256.Size], header[3*sha256.Size:]
	want, got := sha256.Sum256([]byte(key)), sha256.Sum256(value)
	if !bytes.Equal(stamp, d.stamp[:]) || !bytes.Equal(of, want[:]) || binary.LittleEndian.Uint64(size) != uint64(len(value)) || !bytes.Equal(sum, got[:]) {
		return nil, ErrCorrupt
	}
	return value, nil
}

// Put writes a value; nothing on a read-only directory. Readers see the whole of it or nothing.
// Errors are those of the file system.
func (d *Disk) Put(key string, value []byte) error {
	if d.readOnly {
		return nil
	}
	of, sum := sha256.Sum256([]byte(key)), sha256.Sum256(value)
	data := make([]byte, 0, headerSize+len(value))
	data = append(data, magic...)
	data = append(data, d.stamp[:]...)
	data = append(data, of[:]...)
	data = append(data, sum[:]...)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(value)))
	data = append(data, value...)
	beside := filepath.Join(d.dir, uuid.NewString()+".part")
	if err := os.WriteFile(beside, data, 0o600); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	if err := os.Rename(beside, d.path(key)); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	return d.shrink(filepath.Base(d.path(key)))
}

// shrink removes what has not been used for the longest time until the files fit, all but the one named.
func (d *Disk) shrink(keep string) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var taken int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() { // another process may have removed it
			continue
		}
		taken += info.Size()
		if ext := filepath.Ext(info.Name()); info.Name() != keep && (ext == ".bin" || ext == ".part") {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if taken <= d.room {
			break
		}
		taken -= f.Size()
		if err := os.Remove(filepath.Join(d.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
