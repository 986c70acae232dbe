package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/files"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const (
	// rereadEvery is how often files are read without a change that was seen, and a write that failed is tried again.
	rereadEvery = 3 * time.Second
	// removalDelay is how long files are the same before objects are removed.
	removalDelay = time.Second
	// mostObjects is how many objects of one save are listed.
	mostObjects = 50
)

// Session keeps a VidraResource as files are.
type Session struct {
	Options Options

	showing sync.Mutex
	watcher *watcher
	saves   chan time.Time
	// fault is the last one that was shown, until a save is applied.
	fault string
	last  lastSave
	// unfinished reports that the last write has not ended well.
	unfinished bool
	found      foundFiles
	held       heldFiles
	outcome    *outcome
}

// Options are the settings of a Session.
type Options struct {
	// Creation has the settings of the VidraResource.
	Creation writes.Creation
	// Paths are files and folders, and Kustomizations folders with a kustomization.
	Paths, Kustomizations []string
	// Recursive also reads the folders in folders.
	Recursive bool
	// Writes is the client of the cluster.
	Writes *writes.Client
	// Show gets each line of the outcome: its kind, and a text. It is called from one goroutine at a time.
	Show func(kind, text string)
}

// lastSave is the save that was applied last.
type lastSave struct {
	files []insight.File
	// texts has the files of kustomizations, with true for those that had a text then.
	texts   map[string]bool
	objects map[string]manifest.Object
	// applied reports that there is one.
	applied bool
}

// foundFiles are the files as they were read last, for a save at a time.
type foundFiles struct {
	files []insight.File
	saved time.Time
}

// heldFiles are files that remove objects. wake ends the time that they have to stay the same for.
type heldFiles struct {
	files []insight.File
	until time.Time
	wake  <-chan time.Time
}

// Run applies the files, and then each save, until ctx ends. Faults are shown. It fails if there is nothing to watch.
func (s *Session) Run(ctx context.Context) error {
	for _, path := range slices.Concat(s.Options.Paths, s.Options.Kustomizations) {
		if path == "-" || strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://") {
			return fmt.Errorf("%s cannot be watched: name files and folders", path)
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	var err error
	if s.watcher, err = newWatcher(func(text string) { s.say("remark", "%s", text) }); err != nil {
		return err
	}
	defer s.watcher.close()
	s.saves = s.watcher.saves(ctx)
	s.outcome = &outcome{session: s, written: parallel.NewSignal()}
	following := make(chan struct{})
	go func() {
		defer close(following)
		s.outcome.follow(ctx)
	}()
	reread := time.NewTicker(rereadEvery)
	defer reread.Stop()
	s.say("watching", "%s: ctrl-C ends it", strings.Join(slices.Concat(s.Options.Paths, s.Options.Kustomizations), ", "))
	for saved := time.Now(); ; {
		s.turn(ctx, saved)
		select {
		case <-ctx.Done():
			<-following
			s.leave()
			return nil
		case saved = <-s.saves:
		case saved = <-reread.C:
		case saved = <-s.held.wake:
			s.held.wake = nil
		}
	}
}

// leave shows the objects that stay.
func (s *Session) leave() {
	if !s.last.applied && !s.unfinished {
		s.say("ended", "nothing was written")
		return
	}
	s.say("ended", "VidraResource %[1]s stays, and its objects are kept as they are in it: `kubectl delete vidraresource %[1]s` removes it with its objects", s.Options.Creation.Name)
}

// say shows a line.
func (s *Session) say(kind, format string, args ...any) {
	s.showing.Lock()
	defer s.showing.Unlock()
	s.Options.Show(kind, fmt.Sprintf(format, args...))
}

// fail shows the lines of a fault, unless it is the last one.
func (s *Session) fail(kind string, err error, end string) {
	if s.fault == err.Error() {
		return
	}
	s.fault = err.Error()
	for line := range strings.Lines(s.fault) {
		s.say(kind, "%s", strings.TrimSuffix(line, "\n"))
	}
	s.say(kind, "%s", end)
}

// turn reads the files and applies them if they are others than those that were applied last.
func (s *Session) turn(ctx context.Context, saved time.Time) {
	if ctx.Err() != nil {
		return
	}
	s.watcher.begin()
	texts := map[string]bool{}
	built := func(path string, text []byte) {
		if files.IsManifest(path) {
			texts[path] = len(bytes.TrimSpace(text)) > 0
		}
	}
	found, err := files.Reader{Recursive: s.Options.Recursive, Visit: s.watcher.visit, Built: built}.Read(ctx, s.Options.Paths, s.Options.Kustomizations)
	s.watcher.end()
	var objects map[string]manifest.Object
	if err == nil {
		err = s.emptied(found, texts)
	}
	if err == nil {
		objects, err = s.parse(found)
	}
	switch {
	case err != nil:
		s.held.files = nil
		s.fail("broken", err, "nothing is changed until this is corrected")
		return
	case s.last.applied && !s.unfinished && slices.Equal(found, s.last.files):
		if s.fault != "" {
			s.say("saved", "the files are as they were applied")
		}
		s.fault, s.held.files, s.found.files = "", nil, nil
		return
	}
	if s.found.files == nil || !slices.Equal(found, s.found.files) { // otherwise this is a later attempt
		s.found.files, s.found.saved = found, saved
	}
	changes := changesOf(s.last.objects, objects)
	if s.hold(found, changes) {
		return
	}
	if err := s.write(ctx, found, texts, objects, changes); err != nil && ctx.Err() == nil {
		s.fail("failed", err, fmt.Sprintf("this is tried again at the next save, and every %s", rereadEvery))
	}
}

// emptied returns an error about a file that had a text when it was applied last.
func (s *Session) emptied(found []insight.File, texts map[string]bool) error {
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		if s.last.texts[path] && !texts[path] {
			return fmt.Errorf("%s is empty, and its objects stay: remove it from the kustomization to remove them", path)
		}
	}
	for _, f := range found {
		had := slices.ContainsFunc(s.last.files, func(was insight.File) bool { return was.Name == f.Name && strings.TrimSpace(was.Text) != "" })
		if had && strings.TrimSpace(f.Text) == "" {
			return fmt.Errorf("%s is empty, and its objects stay: delete the file to remove them", f.Name)
		}
	}
	return nil
}

// parse returns the objects of files by their names.
func (s *Session) parse(found []insight.File) (map[string]manifest.Object, error) {
	creation := s.Options.Creation
	creation.Files = found
	cut, err := creation.Manifest()
	if err != nil {
		return nil, err
	}
	objects := make(map[string]manifest.Object, len(cut.Objects))
	for _, o := range cut.Objects {
		objects[display.NameOf(o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName())] = o
	}
	return objects, nil
}

// changes are the objects that two manifests do not share, each with a sign as of a diff.
type changes struct {
	lines                   []string
	added, changed, removed int
}

func changesOf(before, after map[string]manifest.Object) (c changes) {
	for name, o := range after {
		was, had := before[name]
		switch {
		case !had:
			c.added++
			c.lines = append(c.lines, "+ "+name)
		case !reflect.DeepEqual(was.Object, o.Object):
			c.changed++
			c.lines = append(c.lines, "~ "+name)
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			c.removed++
			c.lines = append(c.lines, "- "+name)
		}
	}
	slices.SortFunc(c.lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return c
}

// hold reports whether the files remove objects and have not been the same for removalDelay.
func (s *Session) hold(found []insight.File, c changes) bool {
	if c.removed == 0 {
		s.held.files = nil
		return false
	}
	if s.held.files == nil || !slices.Equal(s.held.files, found) {
		s.held.files, s.held.until = found, time.Now().Add(removalDelay)
		s.held.wake = time.After(removalDelay)
		s.say("waiting", "%s would be removed: the files have to stay as they are for %s", display.Plural(c.removed, "object"), removalDelay)
	}
	return time.Now().Before(s.held.until)
}

// write writes the VidraResource.
func (s *Session) write(ctx context.Context, found []insight.File, texts map[string]bool, objects map[string]manifest.Object, c changes) error {
	creation := s.Options.Creation
	creation.Files = found
	p, err := s.Options.Writes.Prepare(ctx, creation)
	if err != nil {
		return err
	}
	for _, remark := range p.Remarks {
		s.say("remark", "%s", remark)
	}
	configMaps, secrets := p.Parts()
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	var next sync.WaitGroup
	defer next.Wait()
	defer cancel()
	wrote := false
	remarks, err := s.Options.Writes.Create(ending, p, func(done, _ int) {
		if wrote || done <= configMaps+secrets {
			return
		}
		wrote = true
		s.wrote(p, found, texts, objects, c)
		// Only former parts are left to do. The next save comes first.
		next.Go(func() {
			select {
			case <-ending.Done():
			case at := <-s.saves:
				cancel()
				select {
				case s.saves <- at:
				default: // another one waits already
				}
			}
		})
	})
	s.unfinished = err != nil // also if it is not known whether it was written
	for _, remark := range remarks {
		s.say("remark", "%s", remark)
	}
	if wrote && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// wrote keeps and shows the files that were written.
func (s *Session) wrote(p *writes.Prepared, found []insight.File, texts map[string]bool, objects map[string]manifest.Object, c changes) {
	again := s.last.applied && !p.Changed && slices.Equal(found, s.last.files)
	s.last.files, s.last.texts, s.last.objects, s.last.applied, s.fault, s.held.files = found, texts, objects, true, "", nil
	if again { // what an earlier write had left
		return
	}
	text := fmt.Sprintf("generation %d with %s", p.VidraResource.Generation, display.Plural(len(objects), "object"))
	if !p.Changed {
		text = fmt.Sprintf("VidraResource %s has this manifest already: %s", s.Options.Creation.Name, text)
	}
	s.say("saved", "%s (%d added, %d changed, %d removed), written %d ms after the save", text, c.added, c.changed, c.removed, time.Since(s.found.saved).Milliseconds())
	for i, line := range c.lines {
		if i == mostObjects {
			s.say("", "... and %d more", len(c.lines)-i)
			break
		}
		s.say("", "%s", line)
	}
	if p.VidraResource.Spec.Suspend {
		s.say("remark", "VidraResource %s is suspended: nothing is applied until spec.suspend is false", s.Options.Creation.Name)
	}
	s.outcome.expect(p.VidraResource.Generation, s.found.saved)
}
