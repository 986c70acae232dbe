package ownership

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// lacksRight matches the message about a right that a user lacks
	// (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, ForbiddenStatusError).
	lacksRight = regexp.MustCompile(`^\S+ (?:"[^"]*" )?is forbidden: User "`)
	// valueless matches reasons of the API server that quote no values.
	valueless = regexp.MustCompile(`\bfield is immutable(?: when ` + "`immutable`" + ` is set)?|\billegal base64 data at input byte [0-9]+|\bfield not declared in schema|\bduplicate entries for key|\bmay not change once set|\bexpected (?:string|boolean|map|list)\b`)
	// ownPolicy matches the message of a policy in config, which quotes no values
	// (k8s.io/apiserver/pkg/admission/plugin/policy/validating, Dispatch).
	ownPolicy = regexp.MustCompile(`^\S+ "[^"]*" is forbidden: ValidatingAdmissionPolicy '([^']*)' `)
)

// ownPolicies are the policies in config.
var ownPolicies = []string{
	"vidra-authors", "vidra-definition-deletion", "vidra-sync-definition-deletion", "vidra-definition-downgrade", "vidra-removal-warning",
	"vidra-deny", "vidra-warn", "vidra-warn-deployment-scale", "vidra-warn-statefulset-scale",
}

// LacksRight reports whether the API server refused a request because the user lacks a right. Policies and webhooks also answer with
// the code of a missing right, and may quote values.
func LacksRight(err error) bool {
	status := statusOf(err)
	return status != nil && apierrors.IsForbidden(err) && lacksRight.MatchString(status.Message)
}

// QuotesNothing reports whether the message of an error of the API server has no value of an object for certain.
func QuotesNothing(err error) bool {
	if LacksRight(err) {
		return true
	}
	status := statusOf(err)
	if status == nil || status.Details != nil && len(status.Details.Causes) > 1 {
		return false
	}
	named := ownPolicy.FindStringSubmatch(status.Message)
	return named != nil && slices.Contains(ownPolicies, named[1])
}

// WithoutMessage describes an error of the API server without its message. fields are those that it names.
func WithoutMessage(err error, fields []string) string {
	reason := apierrors.ReasonForError(err)
	if reason == metav1.StatusReasonUnknown {
		reason = "an error"
	}
	of, why := "", ""
	if len(fields) > 0 {
		of = " for the fields [" + strings.Join(fields, ", ") + "]"
	}
	if status := statusOf(err); status != nil {
		if known := slices.Compact(slices.Sorted(slices.Values(valueless.FindAllString(status.Message, -1)))); len(known) > 0 {
			why = " (" + strings.Join(known, ", ") + ")"
		}
	}
	return fmt.Sprintf("the API server answered %s%s%s; its message is withheld because it may quote a sensitive value", reason, of, why)
}

// statusOf returns the answer in an error; nil for another error.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	answered := status.Status()
	return &answered
}
