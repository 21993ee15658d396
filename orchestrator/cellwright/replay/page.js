for (const slider of document.querySelectorAll('input[type=range]')) {
  const both = slider.parentElement.querySelector('.both');
  slider.addEventListener('input', () => both.style.setProperty('--cut', `${slider.value}%`));
}
