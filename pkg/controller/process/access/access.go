// Package access lets the API server decide who may read an HTTP endpoint, as the kubelet and kube-state-metrics do:
// a TokenReview says whose token a request has, and a SubjectAccessReview says whether this user may get the path.
//
// The package takes the place of the delegating authenticator and authorizer of k8s.io/apiserver, which would add more
// than 200 packages to an operator, among them gRPC and CEL.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// allowedFor and rejectedFor are how long a decision of the API server is cached. A revoked token therefore works for
	// up to allowedFor.
	allowedFor  = time.Minute
	rejectedFor = 10 * time.Second
	// answers is the maximum number of cached decisions.
	answers = 1024
	// perSecond and burst limit the reviews that one client may cause, per second and at once. A client is an IP address,
	// so that a Pod that tries tokens delays no other Pod. clients is the maximum number of cached addresses.
	perSecond, burst, clients = 1, 10, 1024
	// clientFor is how long an idle address is cached. In this time, its whole burst becomes available again.
	clientFor = time.Minute
	// trustedFor is how long after an allowed review the limit does not apply to the same question. Without this
	// exception, a Pod that shares the address of Prometheus, for example behind NAT, could block Prometheus. trusted is
	// the maximum number of such questions.
	trustedFor, trusted = time.Hour, 256
	// maxPath is the maximum length of a path, in bytes. Requests with longer paths cause no review.
	maxPath = 256
	// reviewTimeout limits the time of both requests of a review together.
	reviewTimeout = 5 * time.Second
	// logInterval is the minimum time between two log lines about failed reviews.
	logInterval = time.Minute
)

// Reviewer asks the API server who may send a request. It is safe for concurrent use.
type Reviewer struct {
	client  kubernetes.Interface
	clock   clock.PassiveClock
	known   *cache.LRUExpireCache // of verdict, by question
	allowed *cache.LRUExpireCache // the questions that were allowed within trustedFor
	failing flowcontrol.PassiveRateLimiter

	mu     sync.Mutex
	limits *cache.LRUExpireCache // of flowcontrol.PassiveRateLimiter, by address
}

// question identifies a decision of the API server. It contains a hash of the token, not the token.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// verdict is the HTTP status of a request, and the text of the response unless the status is 200.
type verdict struct {
	status int
	text   string
}

// New returns a Reviewer. Its client needs the permissions of the ClusterRole system:auth-delegator.
func New(client kubernetes.Interface, clk clock.PassiveClock) *Reviewer {
	return &Reviewer{
		client:  client,
		clock:   clk,
		known:   cache.NewLRUExpireCacheWithClock(answers, clk),
		allowed: cache.NewLRUExpireCacheWithClock(trusted, clk),
		limits:  cache.NewLRUExpireCacheWithClock(clients, clk),
		failing: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(time.Second)/float32(logInterval), 1, clk),
	}
}

// Protect returns a handler that calls next if the bearer token of a request belongs to a user with the permission to
// the non-resource URL of the request. The verb of the permission is the method of the request in lower case. The
// handler responds to all other requests itself: 401 without a valid token, 403 if the user lacks the permission, 414
// for a path of more than 256 bytes, 429 if the client has caused too many reviews, and 500 if the review fails. Such a
// response closes the connection, so that clients without the permission cannot keep connections open.
func (r *Reviewer) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		v := r.judge(request)
		switch v.status {
		case http.StatusOK:
			next.ServeHTTP(w, request)
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Connection", "close")
		http.Error(w, v.text, v.status)
	})
}

func (r *Reviewer) judge(request *http.Request) verdict {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return verdict{http.StatusUnauthorized, "the request needs a bearer token"}
	}
	if len(request.URL.Path) > maxPath {
		return verdict{http.StatusRequestURITooLong, "the path is too long"}
	}
	// The question has a clone of the path, because the path itself would keep the whole request line in memory.
	asked := question{sha256.Sum256([]byte(token)), strings.ToLower(request.Method), strings.Clone(request.URL.Path)}
	if known, ok := r.known.Get(asked); ok {
		return known.(verdict)
	}
	if _, wasAllowed := r.allowed.Get(asked); !wasAllowed && !r.limit(request.RemoteAddr).TryAccept() {
		return verdict{http.StatusTooManyRequests, "too many requests with new tokens"}
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	decided, err := r.review(ctx, token, asked)
	if err != nil {
		r.report(request.Context(), err)
		return verdict{
			http.StatusInternalServerError, "the API server failed to authenticate or authorize this request; see the log of " +
				"the operator",
		}
	}
	if decided.status != http.StatusOK {
		r.known.Add(asked, decided, rejectedFor)
		r.allowed.Remove(asked)
		return decided
	}
	r.known.Add(asked, decided, allowedFor)
	r.allowed.Add(asked, nil, trustedFor)
	return decided
}

// limit returns the limiter of the client at an address.
func (r *Reviewer) limit(address string) flowcontrol.PassiveRateLimiter {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter, ok := r.limits.Get(host)
	if !ok {
		limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(perSecond, burst, r.clock)
	}
	r.limits.Add(host, limiter, clientFor)
	return limiter.(flowcontrol.PassiveRateLimiter)
}

// review asks the API server to whom the token belongs, and whether this user may send the request.
func (r *Reviewer) review(ctx context.Context, token string, asked question) (verdict, error) {
	who, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, fmt.Errorf("creating a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return verdict{http.StatusUnauthorized, "the token is not valid"}, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: asked.path, Verb: asked.verb},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed {
		return verdict{
			http.StatusForbidden,
			fmt.Sprintf("user %q may not %s the path %q: bind the user to a ClusterRole with this nonResourceURL",
				user.Username, asked.verb, asked.path),
		}, nil
	}
	return verdict{status: http.StatusOK}, nil
}

// report logs that a review has failed, at most once per logInterval. It does not log the review of a client that has
// closed its connection.
func (r *Reviewer) report(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) || !r.failing.TryAccept() {
		return
	}
	advice := "check whether the API server is reachable"
	if apierrors.IsForbidden(err) {
		advice = "bind the ClusterRole system:auth-delegator to the operator's service account"
	}
	klog.FromContext(ctx).Error(err, "Rejecting requests for metrics, because their tokens cannot be checked", "advice",
		advice)
}
