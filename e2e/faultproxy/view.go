package faultproxy

import (
	"bytes"
	"maps"
	"net/http"
	"sync"
)

// View is the state of the API server as the watches of clients have shown it up to a moment.
type View map[string]*recording

// recording is the events of one watch since it began.
type recording struct {
	contentType string

	// mu guards events.
	mu     sync.Mutex
	events []byte
}

func (r *recording) add(event []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event...)
}

func (r *recording) copy() *recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &recording{contentType: r.contentType, events: bytes.Clone(r.events)}
}

// watchKey is equal for two watches of the same objects, from whichever version.
func watchKey(q Request) string {
	query := maps.Clone(q.Query)
	for _, name := range []string{"resourceVersion", "timeout", "timeoutSeconds"} {
		query.Del(name)
	}
	return q.Path + "?" + query.Encode()
}

// fromTheStart reports whether a watch begins with all objects.
func fromTheStart(q Request) bool { return q.Query.Get("sendInitialEvents") == "true" }

// record returns the recording of a watch that begins; nil if it does not begin with all objects.
func (p *Proxy) record(q Request, answer *http.Response) *recording {
	if !fromTheStart(q) {
		return nil
	}
	r := &recording{contentType: answer.Header.Get("Content-Type")}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recordings[watchKey(q)] = r
	return r
}

// View returns the state that the latest watch of each kind has shown up to now.
func (p *Proxy) View() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := View{}
	for key, r := range p.recordings {
		v[key] = r.copy()
	}
	return v
}

// Freeze makes the proxy an API server whose watches show nothing after v, until Thaw. Watches that begin with all objects show those of v; other ones are
// silent. As with an API server whose cache is behind, reads of single objects, lists of the latest state and writes are answered by the
// real one. Watches that are running, and watches of kinds that v lacks, are left alone.
func (p *Proxy) Freeze(v View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen, p.thawed = v, make(chan struct{})
}

// Thaw ends Freeze. The watches that it has answered end in order, and their clients go on from the last version that they saw.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.thawed)
		p.frozen = nil
	}
}

// replay answers a watch from the view of Freeze. It reports whether it has.
func (p *Proxy) replay(w http.ResponseWriter, r *http.Request, q Request) bool {
	if q.Verb != "watch" {
		return false
	}
	p.mu.Lock()
	v, thawed := p.frozen, p.thawed
	known := v[watchKey(q)]
	p.mu.Unlock()
	if v == nil || fromTheStart(q) && known == nil {
		return false
	}
	contentType, events := "application/json", []byte(nil)
	if fromTheStart(q) {
		contentType, events = known.contentType, known.events
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(events); err != nil {
		return true // the client is gone
	}
	if flusher, is := w.(http.Flusher); is {
		flusher.Flush()
	}
	select {
	case <-thawed:
	case <-r.Context().Done():
	}
	return true
}
