package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLeastRecentlyUsedLeaves(t *testing.T) {
	var gone []int
	c := New[string, int](2, 100, func(v int) { gone = append(gone, v) })
	c.Put("a", 1)
	c.Put("b", 2)
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Fatal(v, ok)
	}
	c.Put("c", 3)
	if _, ok := c.Get("b"); ok || len(gone) != 1 || gone[0] != 2 {
		t.Errorf("b must have left: %v", gone)
	}
	c.Put("a", 4)
	if v, _ := c.Get("a"); v != 4 || gone[len(gone)-1] != 1 {
		t.Errorf("a replaced: %d, %v", v, gone)
	}
	c.Remove("c")
	c.Remove("nothing")
	c.Clear()
	if c.Len() != 0 || len(gone) != 4 {
		t.Errorf("%d left, %v gone", c.Len(), gone)
	}
	c.Put("x", 1)
	if n := testing.AllocsPerRun(100, func() { c.Get("x") }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

func BenchmarkGet(b *testing.B) {
	c := New[int, int](1024, 1024, nil)
	for i := range 1024 {
		c.Put(i, i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Get(i % 1024)
	}
}

func TestBytesAreBounded(t *testing.T) {
	var gone []int
	c := New[string, int](100, 10, func(v int) { gone = append(gone, v) })
	for i, k := range []string{"a", "b", "c"} {
		c.Put(k, i)
		c.Weigh(k, 4)
	}
	if len(gone) != 1 || gone[0] != 0 {
		t.Errorf("a must have left: %v", gone)
	}
	c.Get("b")
	c.Weigh("c", 6)
	c.Weigh("a", 1000) // has left
	if c.Len() != 2 {
		t.Errorf("%d values fit, %v gone", c.Len(), gone)
	}
	c.Put("d", 3)
	c.Weigh("d", 11) // larger than the limit: it is kept as the only value
	if _, ok := c.Get("d"); !ok || c.Len() != 1 {
		t.Errorf("%d values beside d", c.Len())
	}
	c.Remove("d")
	c.Put("e", 4)
	c.Weigh("e", 10)
	c.Put("f", 5)
	if c.Len() != 2 {
		t.Error("what left takes no room any more")
	}
}

func open(t *testing.T, dir, stamp string, readOnly bool) *Disk {
	t.Helper()
	d, err := OpenDisk(dir, stamp, 1<<20, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDiskRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	d := open(t, dir, "compiler 1", false)
	key := Key([]byte("module"), []byte("options"))
	if key == Key([]byte("moduleo"), []byte("ptions")) {
		t.Error("the parts of a key must not run together")
	}
	if _, err := d.Get(key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that is not there: %v", err)
	}
	if err := d.Put(key, []byte("value")); err != nil {
		t.Fatal(err)
	}
	if v, err := d.Get(key); err != nil || string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	// Another compiler neither sees the value nor replaces it.
	second := open(t, dir, "compiler 2", false)
	if _, err := second.Get(key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another compiler's value: %v", err)
	}
	if err := second.Put(key, []byte("second")); err != nil {
		t.Fatal(err)
	}
	for want, disk := range map[string]*Disk{"value": d, "second": second} {
		if v, err := disk.Get(key); err != nil || string(v) != want {
			t.Errorf("%q, %v; want %q", v, err, want)
		}
	}
	read := open(t, dir, "compiler 1", true)
	if err := read.Put("other", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Get("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a read-only cache was written: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDamagedFilesAreMisses(t *testing.T) {
	whole := func(t *testing.T) (*Disk, string, []byte) {
		d := open(t, t.TempDir(), "c", false)
		if err := d.Put("k", []byte(strings.Repeat("value", 100))); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(d.path("k"))
		if err != nil {
			t.Fatal(err)
		}
		return d, d.path("k"), data
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"short":     func(b []byte) []byte { return b[:20] },
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		"longer":    func(b []byte) []byte { return append(b, 0) },
		"foreign":   func(b []byte) []byte { return []byte(strings.Repeat("x", len(b))) },
		"bit":       func(b []byte) []byte { b[len(b)-7] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			d, path, data := whole(t)
			if err := os.WriteFile(path, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if v, err := d.Get("k"); err == nil {
				t.Fatalf("read %d bytes of a damaged file", len(v))
			}
			if err := d.Put("k", []byte("new")); err != nil {
				t.Fatal(err)
			}
			if v, err := d.Get("k"); err != nil || string(v) != "new" {
				t.Errorf("%q, %v after writing again", v, err)
			}
		})
	}
}

// A file of another compiler that was copied to a name of this one's is foreign, however whole it is.
func TestForeignFilesAreMisses(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := open(t, dir, "compiler 1", false), open(t, dir, "compiler 2", false)
	if err := theirs.Put("k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(theirs.path("k"), ours.path("k")); err != nil {
		t.Fatal(err)
	}
	if v, err := ours.Get("k"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := ours.Get("k"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the foreign file was left: %v", err)
	}
}

// Two whole files under each other's names are not mistaken for each other.
func TestSwappedFilesAreMisses(t *testing.T) {
	d := open(t, t.TempDir(), "c", false)
	for _, key := range []string{"a", "b"} {
		if err := d.Put(key, []byte("value of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	aside := d.path("a") + ".aside"
	for _, move := range [][2]string{{d.path("a"), aside}, {d.path("b"), d.path("a")}, {aside, d.path("b")}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b"} {
		if v, err := d.Get(key); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the value of %s is %q, %v", key, v, err)
		}
	}
}

// What is not a regular file is a miss, at once.
func TestFilesThatAreNoneAreMisses(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(t *testing.T, path string) error{
		"pipe":      func(t *testing.T, path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(t *testing.T, path string) error { return os.MkdirAll(filepath.Join(path, "deep"), 0o700) },
		"link":      func(t *testing.T, path string) error { return os.Symlink(elsewhere, path) },
		"dead link": func(t *testing.T, path string) error { return os.Symlink("/dev/zero/nothing", path) },
		"device":    func(t *testing.T, path string) error { return os.Symlink("/dev/zero", path) },
		"socket": func(t *testing.T, path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			t.Chdir(filepath.Dir(path)) // a socket's path is short
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(path)})
		},
		"hole": func(t *testing.T, path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(1 << 40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), "c", false)
			if err := make(t, d.path("k")); err != nil {
				t.Skip(err)
			}
			if v, err := d.Get("k"); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%q, %v", v, err)
			}
			if err := d.Put("k", []byte("new")); err != nil {
				t.Fatal(err)
			}
			if v, err := d.Get("k"); err != nil || string(v) != "new" {
				t.Errorf("%q, %v after writing it again", v, err)
			}
		})
	}
	if data, err := os.ReadFile(elsewhere); err != nil || string(data) != "x" {
		t.Errorf("what the link names was changed: %q, %v", data, err)
	}
}

func TestTheDiskIsBounded(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDisk(dir, "c", 3*(1000+int64(headerSize)), false)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	put := func(key string) {
		t.Helper()
		if err := d.Put(key, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range []string{"a", "b", "c"} {
		put(key)
		if err := os.Chtimes(d.path(key), past, past.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, "left behind.part") // by a process that was killed
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, past, past.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get("a"); err != nil { // used: now the youngest
		t.Fatal(err)
	}
	put("d")
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if _, err := d.Get(key); (err == nil) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
	for _, key := range []string{"e", "f", "g"} {
		put(key)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
}

func TestDirectoriesOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDisk(dir, "c", 1, false); err == nil {
		t.Error("a directory that everyone can write to was taken")
	}
	if _, err := OpenDisk(filepath.Join(dir, "nothing"), "c", 1, true); err == nil {
		t.Error("a read-only directory that is not there was taken")
	}
	made := filepath.Join(dir, "made")
	open(t, made, "c", false)
	wantMode := func(want fs.FileMode) {
		t.Helper()
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != want {
			t.Errorf("the directory has %v, %v, not %v", info, err, want)
		}
	}
	wantMode(0o700)
	if err := os.Chmod(made, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, made, "c", true)
	wantMode(0o755)
	open(t, made, "c", false)
	wantMode(0o700)
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	if err := os.Chown(made, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDisk(made, "c", 1, false); err == nil {
		t.Error("a directory of another user was taken")
	}
}
