package faultproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what goes wrong with a request. The zero value is none: the request
// passes unchanged, which exempts it from older rules. A Fault is a value that
// any number of rules can share.
type Fault struct {
	// instead, when not nil, comes before the request is passed on. It says
	// whether it has answered the request; if not, that passes on. rule is
	// the one with the fault.
	instead func(w http.ResponseWriter, r *http.Request, rule *Rule) (answered bool)
	// onAnswer, when not nil, changes the answer of the API server. The stream
	// is nil unless the answer is a watch.
	onAnswer func(answer *http.Response, watch *stream)
	// late says that the answer is held back until the rule is removed.
	late bool
	// limited says that the fault hits times requests only, after it has let passed others pass.
	limited       bool
	times, passed int
}

// Times returns the fault limited to the first n requests that its rule
// matches. Later ones are left to older rules, or pass.
func (f Fault) Times(n int) Fault {
	f.limited, f.times = true, n
	return f
}

// Nth returns the fault limited to one request: the n-th, from 1, that its rule matches.
func (f Fault) Nth(n int) Fault {
	f.limited, f.times, f.passed = true, 1, n-1
	return f
}

// Status answers with the Status of the error and its code, as the API server
// does: JSON, and a header Retry-After where the Status has RetryAfterSeconds.
// The request does not reach the server. Make the error with a constructor of
// k8s.io/apimachinery/pkg/api/errors; client-go itself tries again what is
// answered with Retry-After.
func Status(err apierrors.APIStatus) Fault {
	status := statusOf(err)
	return Fault{instead: func(w http.ResponseWriter, _ *http.Request, _ *Rule) bool {
		writeStatus(w, status)
		return true
	}}
}

// Text answers with a code and a text, as a proxy does that finds no API server. The request does not reach the server.
func Text(code int, text string) Fault {
	return Fault{instead: func(w http.ResponseWriter, _ *http.Request, _ *Rule) bool {
		http.Error(w, text, code)
		return true
	}}
}

// Stall leaves the request without an answer until the client gives up. When
// the rule is removed first, the request is passed on and gets its answer late.
func Stall() Fault {
	return Fault{instead: func(_ http.ResponseWriter, r *http.Request, rule *Rule) bool {
		rule.holding.Add(1)
		defer rule.holding.Add(-1)
		select {
		case <-rule.removed:
			return false
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}}
}

// Delay passes the request on after d, or when the rule is removed, whichever comes first: each answer
// comes that much later.
func Delay(d time.Duration) Fault {
	return Fault{instead: func(_ http.ResponseWriter, r *http.Request, rule *Rule) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-rule.removed:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		return false
	}}
}

// Late passes the request on, and holds its answer back until the rule is removed or the
// client gives up.
func Late() Fault { return Fault{late: true} }

// CutAfter passes the answer on and breaks it off after n bytes of its body, as
// they are on the wire: a LIST may be compressed. A shorter answer passes whole.
// With 0, the API server does what it was asked, and its client does not learn
// of it.
func CutAfter(n int64) Fault {
	return Fault{onAnswer: func(answer *http.Response, _ *stream) {
		answer.Body = &cutBody{ReadCloser: answer.Body, left: n}
	}}
}

// CloseAfter passes a watch on and ends it in order after d, as an API server
// does whose timeout for watches is short. Other requests pass unchanged.
func CloseAfter(d time.Duration) Fault {
	return Fault{onAnswer: func(_ *http.Response, watch *stream) {
		if watch == nil {
			return
		}
		timer := time.AfterFunc(d, func() { watch.end(&ending{}) })
		context.AfterFunc(watch.ctx, func() { timer.Stop() })
	}}
}

// ErrorEvent answers a watch that the API server accepts with an ERROR event
// alone, which carries the Status of the error, and ends it in order. Other
// requests pass unchanged. See ErrorStreams for watches that are running.
func ErrorEvent(err apierrors.APIStatus) Fault {
	status := statusOf(err)
	return Fault{onAnswer: func(_ *http.Response, watch *stream) {
		if watch != nil {
			watch.end(&ending{status: status})
		}
	}}
}

// statusOf returns the Status of an error with the type that it has on the wire.
func statusOf(err apierrors.APIStatus) *metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// writeStatus answers as the API server does.
func writeStatus(w http.ResponseWriter, status *metav1.Status) {
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // a Status has nothing that JSON cannot hold
	}
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body) // the client may be gone
}

// errCut is what ends an answer that is broken off.
var errCut = errors.New("the answer is cut off here")

// cutBody is a body that fails after some bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errCut
	}
	n, err := c.ReadCloser.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}
