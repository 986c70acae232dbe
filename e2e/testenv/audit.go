package testenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// AuditEvent is one request to the API server.
type AuditEvent struct {
	// User that sent it, as RBAC knows it.
	User string
	// Pod is the name of the Pod that sent it with its own token; empty for others.
	Pod string
	// As is the user that it impersonates; empty if it does not.
	As string
	// Verb of the request: get, list, watch, create, update, patch, delete...
	Verb string
	// Resource, Subresource, Namespace and Name that it is about; empty where
	// the request names none. A name that the server generates is not there.
	Group, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status of the answer.
	Code int
	// UserAgent and RequestURI as the client sent them.
	UserAgent, RequestURI string
	// Time at which the API server received it.
	Time time.Time
}

// AuditMark is a place in the audit log, and its time.
type AuditMark struct {
	end int64
	at  time.Time
}

// AuditMark returns the end of the audit log as it is now: AuditSince returns the requests after it. Requests that the API server has received before are
// left out, as their effects may be seen before their answers are in the log. Where the log cannot be read, AuditSince says so.
func (e *Env) AuditMark() AuditMark {
	at := time.Now()
	f, err := os.Open(e.AuditLog)
	if err != nil {
		return AuditMark{at: at}
	}
	defer f.Close() //nolint:errcheck // it was only read
	end, err := endOfLines(f)
	if err != nil {
		return AuditMark{at: at}
	}
	return AuditMark{end, at}
}

// endOfLines returns where the last whole line of a file ends. What comes after
// it is a line that is being written.
func endOfLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const step = 64 << 10
	for end := info.Size(); end > 0; {
		start := max(0, end-step)
		b := make([]byte, end-start)
		if _, err := f.ReadAt(b, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// AuditSince returns the requests that were answered since the mark, in the
// order of the answers, each once; a watch counts when it begins. The API
// server notes a request before it answers, so a client that has the answer finds
// the request here. Each line of the log is parsed once.
func (e *Env) AuditSince(mark AuditMark) ([]AuditEvent, error) {
	events, err := e.audit.since(e.AuditLog, mark)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return events, nil
}

// auditTail is what was read of an audit log so far. It is safe for concurrent use.
type auditTail struct {
	// mu guards what stands below.
	mu sync.Mutex
	// end is where the part ends that was read.
	end int64
	// events are the requests in it, and starts where the line of each begins.
	events []AuditEvent
	starts []int64
	// texts holds each text that many requests have once.
	texts map[string]string
}

// since reads what has come to the log, and returns what stands behind the mark.
func (a *auditTail) since(path string, mark AuditMark) ([]AuditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readLocked(path); err != nil {
		return nil, err
	}
	first, _ := slices.BinarySearch(a.starts, mark.end)
	return slices.DeleteFunc(slices.Clone(a.events[first:]), func(e AuditEvent) bool { return e.Time.Before(mark.at) }), nil
}

// readLocked reads whole lines; a line that is being written is left for the next time.
func (a *auditTail) readLocked(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := f.Seek(a.end, io.SeekStart); err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return nil
		}
		var l auditLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %q", err, line)
		}
		if l.counts() {
			a.events, a.starts = append(a.events, a.onceLocked(l.event())), append(a.starts, a.end)
		}
		a.end += int64(len(line)) + 1
		b = rest
	}
}

// onceLocked is the same request with the texts that others have, too.
func (a *auditTail) onceLocked(e AuditEvent) AuditEvent {
	if a.texts == nil {
		a.texts = map[string]string{}
	}
	for _, text := range []*string{&e.User, &e.Pod, &e.As, &e.Verb, &e.Group, &e.Resource, &e.Subresource, &e.Namespace, &e.Name, &e.UserAgent} {
		known, found := a.texts[*text]
		if !found {
			known = *text
			a.texts[known] = known
		}
		*text = known
	}
	return e
}

// auditLine is the part of audit.k8s.io/v1 Event that we use.
type auditLine struct {
	Stage      string
	Verb       string
	RequestURI string
	UserAgent  string
	User       struct {
		Username string
		Extra    map[string][]string
	}
	ImpersonatedUser struct{ Username string }
	ObjectRef        struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	}
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// counts says whether the line is the one that stands for its request: the only
// one, or of the two of a watch the first.
func (l *auditLine) counts() bool {
	if l.Verb == "watch" {
		return l.Stage == "ResponseStarted"
	}
	return l.Stage != "ResponseStarted"
}

func (l *auditLine) event() AuditEvent {
	return AuditEvent{
		User:        l.User.Username,
		Pod:         strings.Join(l.User.Extra["authentication.kubernetes.io/pod-name"], ""),
		As:          l.ImpersonatedUser.Username,
		Verb:        l.Verb,
		Group:       l.ObjectRef.APIGroup,
		Resource:    l.ObjectRef.Resource,
		Subresource: l.ObjectRef.Subresource,
		Namespace:   l.ObjectRef.Namespace,
		Name:        l.ObjectRef.Name,
		Code:        l.ResponseStatus.Code,
		UserAgent:   l.UserAgent,
		RequestURI:  l.RequestURI,
		Time:        l.RequestReceivedTimestamp,
	}
}
