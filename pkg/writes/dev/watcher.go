package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files are unchanged at the end of a save, and longest how long a series of changes is awaited.
	settle  = 50 * time.Millisecond
	longest = 150 * time.Millisecond
	// maxLinks is how many symbolic links a path has at most.
	maxLinks = 40
)

// watcher reports changes in the folders of files. Folders are watched, because many editors replace a file.
type watcher struct {
	fs     *fsnotify.Watcher
	wanted map[string]bool
	remark func(text string)
	told   bool
}

func newWatcher(remark func(text string)) (*watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	return &watcher{fs: fs, wanted: map[string]bool{}, remark: remark}, nil
}

// begin begins a read of all files.
func (w *watcher) begin() { clear(w.wanted) }

// visit watches the folders whose changes can change a file or folder, before that is read: no change is between the two.
func (w *watcher) visit(path string) {
	for _, folder := range foldersOf(path, maxLinks) {
		if w.wanted[folder] {
			continue
		}
		w.wanted[folder] = true
		// A folder that was replaced is another one: it is added again each time.
		if err := w.fs.Add(folder); err != nil && !os.IsNotExist(err) && !w.told {
			w.told = true
			w.remark(fmt.Sprintf("%s cannot be watched, and is read every %s: %v", folder, rereadEvery, err))
		}
	}
}

// end ends a read, and the watches of the folders that it did not visit.
func (w *watcher) end() {
	for _, folder := range w.fs.WatchList() {
		if !w.wanted[folder] {
			_ = w.fs.Remove(folder) // it may be gone
		}
	}
}

// foldersOf returns the folders in which a path, and each symbolic link on it, can be replaced, and the path itself if it is a folder.
func foldersOf(path string, links int) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var folders []string
	at := filepath.VolumeName(path) + string(filepath.Separator)
	rest := strings.Split(strings.TrimPrefix(path, at), string(filepath.Separator))
	for i, name := range rest {
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case err != nil: // the nearest folder that exists
			return append(folders, at)
		case info.Mode()&os.ModeSymlink != 0 && links > 0:
			target, err := os.Readlink(next)
			if err != nil {
				return append(folders, at)
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			return append(append(folders, at), foldersOf(filepath.Join(append([]string{target}, rest[i+1:]...)...), links-1)...)
		case i == len(rest)-1:
			folders = append(folders, at)
			if info.IsDir() {
				folders = append(folders, next)
			}
		}
		at = next
	}
	return folders
}

// saves returns a channel with the time of the first change of each save, until ctx ends.
func (w *watcher) saves(ctx context.Context) chan time.Time {
	saves := make(chan time.Time, 1)
	go func() {
		var first time.Time
		var settled <-chan time.Time
		changed := func() {
			if first.IsZero() {
				first = time.Now()
			}
			settled = time.After(max(0, min(settle, longest-time.Since(first))))
		}
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-w.fs.Events:
				if !ok {
					return
				}
				changed()
			case _, ok := <-w.fs.Errors: // changes were lost
				if !ok {
					return
				}
				changed()
			case <-settled:
				select {
				case saves <- first:
				default: // one waits already
				}
				first, settled = time.Time{}, nil
			}
		}
	}()
	return saves
}

// close ends the watches.
func (w *watcher) close() { _ = w.fs.Close() } // nothing was written
