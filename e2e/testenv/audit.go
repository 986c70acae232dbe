package testenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// AuditEvent is one request to the API server.
type AuditEvent struct {
	// User that sent it, as RBAC knows it.
	User string
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

// AuditMark is a place in the audit log.
type AuditMark int64

// AuditMark returns the end of the audit log as it is now: AuditSince returns
// what was answered after it. Where the log cannot be read, AuditSince says so.
func (e *Env) AuditMark() AuditMark {
	f, err := os.Open(e.AuditLog)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // it was only read
	end, err := endOfLines(f)
	if err != nil {
		return 0
	}
	return AuditMark(end)
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
// server notes a request before it answers, so whoever has the answer finds
// the request here.
func (e *Env) AuditSince(mark AuditMark) ([]AuditEvent, error) {
	f, err := os.Open(e.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := f.Seek(int64(mark), io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(b)
}

// auditLine is the part of audit.k8s.io/v1 Event that we use.
type auditLine struct {
	Stage            string
	Verb             string
	RequestURI       string
	UserAgent        string
	User             struct{ Username string }
	ImpersonatedUser struct{ Username string }
	ObjectRef        struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	}
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// parseAudit reads whole lines; a line that is being written is left out.
func parseAudit(b []byte) ([]AuditEvent, error) {
	var events []AuditEvent
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return events, nil
		}
		b = rest
		var l auditLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w in %q", err, line)
		}
		if l.counts() {
			events = append(events, l.event())
		}
	}
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
