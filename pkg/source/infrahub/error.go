package infrahub

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Error is the failure of a request to an Infrahub server.
type Error struct {
	// Reason is one of the reasons of InfrahubSyncs, such as v1alpha1.SyncReasonUnauthorized.
	Reason string
	// Message names the server, the request and the next step.
	Message string
	// RetryAfter is the delay that the server asks for, if any.
	RetryAfter time.Duration
	// Status is the HTTP status; 0 without an answer.
	Status int
	// TooLarge means that the answer is larger than its limit.
	TooLarge bool
}

func (e *Error) Error() string { return e.Message }

// statusOf returns the HTTP status of an error; 0 without an answer.
func statusOf(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Status
	}
	return 0
}

// maxDetail bounds the quote of the server in a message, and maxRetryAfter how long it may have the client wait.
const (
	maxDetail     = 300
	maxRetryAfter = time.Hour
)

// transportError is the error of a request without an answer. redact removes credentials from its text, which may quote a malformed answer.
func transportError(what string, base *url.URL, err error, redact func(string) string) *Error {
	advice := "check spec.source.infrahubAPIURL, the server and the network"
	var timeout interface{ Timeout() bool }
	text := err.Error()
	if request, is := errors.AsType[*url.Error](err); is { // it repeats the URL
		text = request.Err.Error()
	}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		advice = "add the CA as the key ca.crt to the Secret with the credentials"
	case errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.CertificateInvalidError)):
		advice = "give the server a valid certificate for this host"
	case errors.As(err, new(tls.RecordHeaderError)):
		advice = "the server speaks no TLS at this port: check http and https in spec.source.infrahubAPIURL"
	case errors.As(err, new(*net.DNSError)):
		advice = "check the host in spec.source.infrahubAPIURL"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text, advice = "it did not answer in time", "check the load of the server and the network"
	}
	return &Error{Reason: v1alpha1.SyncReasonUnreachable, Message: fmt.Sprintf("%s at %s failed: %s: %s", what, origin(base), display.Truncate(redact(display.ErrorText(text)), maxDetail), advice)}
}

// statusError is the error of an answer other than 200. redact removes credentials from the text of the server.
func statusError(what string, base *url.URL, response *http.Response, body []byte, now time.Time, redact func(string) string) *Error {
	e := &Error{Status: response.StatusCode}
	advice := ""
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized:
		e.Reason, advice = v1alpha1.SyncReasonUnauthorized, "check the username and password, or the token, in the Secret with the label "+v1alpha1.InfrahubURLLabel
	case status == http.StatusForbidden:
		e.Reason, advice = v1alpha1.SyncReasonForbidden, "give the account in Infrahub the right to run the query and to view artifacts"
	case status == http.StatusNotFound:
		e.Reason, advice = v1alpha1.SyncReasonNotFound, "check spec.source, and that the query exists in Infrahub on this branch"
	case status == http.StatusTooManyRequests:
		e.Reason, advice = v1alpha1.SyncReasonRateLimited, "set a longer spec.interval"
		e.RetryAfter = retryAfter(response.Header.Get("Retry-After"), now)
	case status >= 500:
		e.Reason, advice = v1alpha1.SyncReasonServerError, "see the log of the Infrahub server"
		e.RetryAfter = retryAfter(response.Header.Get("Retry-After"), now)
	case status >= 300 && status < 400:
		e.Reason = v1alpha1.SyncReasonRedirected
		advice = "redirects are not followed, because the credentials are for this server alone: set spec.source.infrahubAPIURL to the URL that needs none"
		if to, err := url.Parse(response.Header.Get("Location")); err == nil && to.Host != "" {
			advice = "it redirects to " + display.Truncate(redact(origin(to)), maxDetail) + ": " + advice
		}
	case status >= 400:
		e.Reason, advice = v1alpha1.SyncReasonQueryFailed, "check spec.source, and the query in Infrahub"
	default:
		e.Reason, advice = v1alpha1.SyncReasonInvalidAnswer, "check that spec.source.infrahubAPIURL is the URL of an Infrahub server"
	}
	detail := ""
	if messages := messagesOf(body, redact); messages != "" {
		detail = " (" + messages + ")"
	}
	e.Message = fmt.Sprintf("%s at %s: answer %d %s%s: %s", what, origin(base), response.StatusCode, http.StatusText(response.StatusCode), detail, advice)
	return e
}

// invalid is the error of an answer of another server than Infrahub, or of an incomplete one.
func invalid(what string, base *url.URL, why string) *Error {
	return &Error{Reason: v1alpha1.SyncReasonInvalidAnswer, Message: fmt.Sprintf("%s at %s: %s", what, origin(base), why)}
}

// origin returns scheme and host of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// messagesOf returns the messages of the errors in an answer of Infrahub, or empty. An error without a message
// counts, in whatever form it is. redact removes credentials from each of them before it is shortened: a part of a password would stay.
func messagesOf(body []byte, redact func(string) string) string {
	var answer struct {
		Errors json.RawMessage `json:"errors"`
	}
	var errs []json.RawMessage
	switch text := ""; {
	case json.Unmarshal(body, &answer) != nil, len(answer.Errors) == 0, string(answer.Errors) == "null":
		return ""
	case json.Unmarshal(answer.Errors, &text) == nil && text != "":
		return display.Truncate(redact(text), maxDetail)
	case json.Unmarshal(answer.Errors, &errs) != nil:
		return noMessage
	}
	var all []string
	for _, one := range errs {
		var e struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(one, &e) != nil {
			_ = json.Unmarshal(one, &e.Message) // a text, or without a message
		}
		all = append(all, cmp.Or(strings.Join(strings.Fields(redact(e.Message)), " "), noMessage))
	}
	return display.Truncate(strings.Join(all, "; "), maxDetail)
}

// noMessage stands for an error of the server without a message.
const noMessage = "an error without a message"

// retryAfter returns the time of a header Retry-After (RFC 9110, 10.2.3), at most maxRetryAfter; 0 if it has none.
func retryAfter(value string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
