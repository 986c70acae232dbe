package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

//go:embed templates static
var files embed.FS

// page is the data of all templates.
type page struct {
	// Base is the path below which all addresses are.
	Base, Title, Cluster, Server string
	// Section is the current entry of the navigation.
	Section string
	// Topic is the topic of notifications to the page.
	Topic string
	// Program is the name of the command line on the user's machine.
	Program string
	// Writes reports that actions are offered.
	Writes bool
	Now    time.Time
	// Body is the data of the page itself.
	Body any
}

// templates are the templates of all pages: each has a block "content", and blocks for the parts that are read again.
var templates = parse()

func parse() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"overview", "vidraresource", "object", "forecast", "result", "error"} {
		all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return all
}

// functions are the functions of the templates.
var functions = template.FuncMap{
	"with2":      func(p page, data any) part { return part{p, data} },
	"moment":     func(p page, m moment, t timeline) momentPart { return momentPart{p, m, t} },
	"ago":        func(t, now time.Time) string { return age(t, now) + " ago" },
	"age":        age,
	"clock":      clock,
	"rfc3339":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"absolute":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"objectLink": objectLink,
	"nextStep":   nextStep,
	"plain":      plainText,
	"reason":     reasonWord,
	"lines":      func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
	"first":      func(text string) string { return text[:min(1, len(text))] },
	"blanks":     func(text string) []string { return strings.Split(text, "WHY") },
	"marked":     marked,
	"odd":        func(i int) bool { return i%2 == 1 },
	"join":       strings.Join,
}

// part is the data of a part of a page with the page.
type part struct {
	Page page
	Data any
}

// momentPart is the data of a row of a timeline.
type momentPart struct {
	Page     page
	Moment   moment
	Timeline timeline
}

// command matches a command in a message. A quoted argument may have backquotes.
var command = regexp.MustCompile("`((?:kubectl|vidra) (?:'[^']*'|[^`'])*)`")

// marked returns the texts of a message: those at odd indexes are commands.
func marked(message string) (texts []string) {
	end := 0
	for _, found := range command.FindAllStringSubmatchIndex(message, -1) {
		texts = append(texts, message[end:found[0]], message[found[2]:found[3]])
		end = found[1]
	}
	return append(texts, message[end:])
}

// age is how long ago a time is.
func age(t, now time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) }

// clock is a time of the present day without its date.
func clock(t, now time.Time) string {
	if t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return t.UTC().Format("15:04:05 UTC")
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// objectLink is the address of the page of an object, below the base.
func objectLink(id object.Identity) string {
	query := url.Values{"kind": {id.GroupKind.String()}, "name": {id.Name}}
	if id.Namespace != "" {
		query.Set("namespace", id.Namespace)
	}
	return "object?" + query.Encode()
}

// objectTopic is the topic of an object.
func objectTopic(id object.Identity) string {
	return objectPrefix + id.GroupKind.String() + "/" + id.Namespace + "/" + id.Name
}

// identityOf is the object of a topic.
func identityOf(topic string) object.Identity {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(topic, objectPrefix), "/")
	namespace, name, _ := strings.Cut(rest, "/")
	return object.Identity{GroupKind: schema.ParseGroupKind(kind), Namespace: namespace, Name: name}
}

// problemID is the object of a problem; zero if it is about none.
func problemID(o *v1alpha1.ProblemObject) object.Identity {
	if o == nil || o.Name == "" {
		return object.Identity{}
	}
	return insight.IdentityOf(*o)
}

// newPage returns the data of a page.
func (s *Server) newPage(title, section, topic string, body any) page {
	return page{
		Base: s.base(), Title: title, Cluster: s.options.Cluster, Server: s.options.Config.Host, Section: section, Topic: topic,
		Program: string(s.options.Program), Writes: s.options.AllowWrites, Now: time.Now(), Body: body,
	}
}

// render answers with a template, or with the block that the query names as part.
func (s *Server) render(w http.ResponseWriter, r *http.Request, code int, name string, p page) {
	block := "layout"
	if part := r.URL.Query().Get("part"); part != "" && templates[name].Lookup("part-"+part) != nil {
		block = "part-" + part
	}
	var out bytes.Buffer
	if err := templates[name].ExecuteTemplate(&out, block, p); err != nil {
		refuse(w, http.StatusInternalServerError, "the page cannot be made, which is a fault of vidra: "+terminal.Escape(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(terminal.EscapeJSON(out.String()))) // the client may have gone
}

// failure is the data of an error.
type failure struct {
	Message string
	// Next is the next step of the user.
	Next []string
}

// fail answers with an error and the next step.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, code int, err error) {
	f := failure{Message: sentence(err)}
	switch {
	case code == http.StatusNotFound:
		f.Next = []string{"Go back to the overview and search there."}
	case apierrors.IsForbidden(err):
		f.Next = []string{"Ask for the right that the message names. This page has your rights and no others."}
	case apierrors.IsUnauthorized(err):
		f.Next = []string{"Log in to the cluster again, as for kubectl, and start the command again."}
	case code == http.StatusBadGateway && !s.hub.away().IsZero():
		f.Next = []string{"The API server does not answer. The page is loaded when it does."}
	}
	s.render(w, r, code, "error", s.newPage("Error", "", "", f))
}

// failAnswer is fail for an error of a question.
func (s *Server) failAnswer(w http.ResponseWriter, r *http.Request, err error) {
	status := apierrors.APIStatus(nil)
	code := http.StatusNotFound
	switch {
	case apierrors.IsForbidden(err):
		code = http.StatusForbidden
	case errors.As(err, &status) && !apierrors.IsNotFound(err), isNetwork(err):
		code = http.StatusBadGateway
	}
	s.fail(w, r, code, err)
}

// isNetwork reports whether an error came from the network.
func isNetwork(err error) bool {
	_, is := errors.AsType[*url.Error](err)
	return is
}

// sentence is an error as a sentence.
func sentence(err error) string {
	text := strings.TrimSpace(err.Error())
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// static serves the files of the front end.
func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := files.ReadFile("static/" + path.Base(name))
	if err != nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no file %q", name))
		return
	}
	types := map[string]string{".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", types[path.Ext(name)]+"; charset=utf-8")
	_, _ = w.Write(content) // the client may have gone
}
